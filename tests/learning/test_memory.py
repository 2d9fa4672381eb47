"""A task that recurrent networks learn and networks without memory do not."""

import pytest

import tfagents_batch as tfb
from tests.envs.tf.split_cartpole import Hidden, Split


def train(core, seed, folder):
    run = tfb.train(
        config="cartpole-hidden",
        env=Hidden,
        wrappers=[],
        steps=100_000,
        seed=seed,
        eval_every=0,
        logdir=folder,
        settings={
            "network.core": core,
            "sequence_length": None if core == "none" else 32,
        },
    )
    return tfb.evaluate(run.logdir, episodes=100, env=Hidden).mean_return


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("core", ["gru", "lstm"])
def test_recurrent_networks_solve_cartpole_without_velocities(core, tmp_path):
    returns = [train(core, seed, tmp_path) for seed in range(1, 4)]
    assert min(returns) >= 400, returns


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_network_without_memory_fails_on_cartpole_without_velocities(tmp_path):
    returns = [train("none", seed, tmp_path) for seed in range(1, 4)]
    assert max(returns) < 100, returns


# The zoo's recurrent PPO reaches -218 on Pendulum at 100,000 steps.
REPLAY = pytest.mark.parametrize(
    ("preset", "seeds", "enough", "threshold", "without"),
    [
        ("dqn/tmaze", 3, 3, 3.8, 1.7),
        ("sac/pendulum-hidden", 3, 3, -250, -400),
    ],
)


def returns(preset, seeds, folder, **options):
    for seed in range(1, seeds + 1):
        run = tfb.train(
            config=preset, seed=seed, eval_every=0, logdir=folder, **options
        )
        yield tfb.evaluate(run.logdir, episodes=100).mean_return


@pytest.mark.slow
@pytest.mark.timeout(7200)
@REPLAY
def test_a_replay_algorithm_remembers(
    preset, seeds, enough, threshold, without, tmp_path
):
    found = list(returns(preset, seeds, tmp_path))
    assert sum(x >= threshold for x in found) >= enough, found


@pytest.mark.slow
@pytest.mark.timeout(3600)
@REPLAY
def test_a_replay_algorithm_without_memory_fails(
    preset, seeds, enough, threshold, without, tmp_path
):
    core = {"network.core": "none", "sequence_length": None, "burn_in": None}
    (found,) = returns(preset, 1, tmp_path, settings=core)
    assert found < without


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_student_without_velocities_learns_in_a_tenth_of_its_teachers_steps(tmp_path):
    options = {"env": Split, "eval_every": 0, "logdir": tmp_path}
    teacher = tfb.train(config="tf/cartpole", steps=200_000, **options)
    expected = tfb.evaluate(teacher.logdir, 100, env=Split).mean_return
    options |= {"steps": 20_000, "wrappers": []}
    settings = {"teacher": teacher.logdir}
    returns = []
    for seed in range(1, 4):
        how = options | {"seed": seed, "settings": settings}
        run = tfb.train(config="distill/cartpole-hidden", **how)
        returns.append(tfb.evaluate(run.logdir, 100, env=Hidden).mean_return)
    assert min(returns) >= 0.9 * expected, returns
