import json

import numpy as np
import pytest

from tfagents_batch.errors import UserError
from tfagents_batch.training.log import curves
from tfagents_batch.training.log.curves import Curve
from tfagents_batch.training.run_folder import runs


def make_run(
    logdir, seed, values, name="cartpole", env="CartPole-v1", evals=(), **other
):
    """Create a run folder with a line for each value and each evaluation."""
    config = {"algorithm": "ppo", "env": env, "seed": seed, **other}
    data = {"config": config, "source": "rollout"}
    folder = runs.create(logdir, name, seed, json.dumps(data))
    lines = [
        {"step": 100 * (i + 1), "episode/return_mean": value}
        for i, value in enumerate(values)
    ]
    lines += [
        {"step": 200 * (i + 1), "eval/return_mean": value}
        for i, value in enumerate(evals)
    ]
    text = "\n".join(json.dumps(line) for line in lines)
    (folder / "metrics.jsonl").write_text(text + "\n")
    return folder


def named(groups):
    return {f"{group.name} on {group.env}": len(group.seeds) for group in groups}


def test_runs_that_differ_in_their_seed_are_one_group(tmp_path):
    for seed in (1, 2, 2):
        make_run(tmp_path, seed, [1, 2])
    make_run(tmp_path, 1, [1, 2], name="other")
    make_run(tmp_path, 1, [1, 2], env="Pendulum-v1")
    assert named(curves.group([tmp_path])) == {
        "cartpole on CartPole-v1": 3,
        "other on CartPole-v1": 1,
        "cartpole on Pendulum-v1": 1,
    }


def test_runs_with_different_settings_are_groups_named_by_their_flags(tmp_path):
    for rate, epochs in ((0.1, 4), (0.1, 4), (0.2, 4), (0.2, 8)):
        settings = {"learning_rate": rate, "epochs": epochs, "gamma": 0.99}
        make_run(tmp_path, 1, [1, 2], settings=settings)
    rate1, rate2 = (f" --algorithm.learning_rate={rate}" for rate in (0.1, 0.2))
    assert named(curves.group([tmp_path])) == {
        f"cartpole{rate1} --algorithm.epochs=4 on CartPole-v1": 2,
        f"cartpole{rate2} --algorithm.epochs=4 on CartPole-v1": 1,
        f"cartpole{rate2} --algorithm.epochs=8 on CartPole-v1": 1,
    }


@pytest.mark.parametrize("algorithm", ["ppo", "./mine.py:Mine"])  # one not imported
@pytest.mark.parametrize(
    ("settings", "flags"),
    [
        ({"source": {"lag": 0}}, "--rollout.lag=0"),
        (
            {"settings": {"network": {"hidden": [8, 8]}}},
            "--algorithm.network.hidden=8,8",
        ),
        ({"env_kwargs": {"gravity": 9.8}}, '--env_kwargs={"gravity": 9.8}'),
        ({"overlap": True}, "--overlap=true"),
    ],
)
def test_settings_are_written_as_on_the_command_line(
    tmp_path, algorithm, settings, flags
):
    (key,) = settings
    make_run(tmp_path, 1, [1, 2], algorithm=algorithm, **settings)
    other = {
        "settings": {"network": {"hidden": None}, "points": []},
        "source": {"lag": 5},
    }
    make_run(tmp_path, 1, [1, 2], algorithm=algorithm, **{key: other.get(key)})
    assert curves.group([tmp_path])[0].name == f"cartpole {flags}"


def test_names_of_many_groups_leave_out_usual_values(tmp_path):
    for rate, epochs in ((0.1, 4), (0.2, 4), (0.3, 4), (0.1, 8)):
        settings = {"learning_rate": rate, "epochs": epochs}
        make_run(tmp_path, 1, [1, 2], settings=settings)
    assert [group.name for group in curves.group([tmp_path])] == [
        "cartpole",
        "cartpole --algorithm.learning_rate=0.2",
        "cartpole --algorithm.learning_rate=0.3",
        "cartpole --algorithm.epochs=8",
    ]
    make_run(tmp_path, 1, [1, 2], settings={"learning_rate": 0.2, "epochs": 8})
    assert len(named(curves.group([tmp_path]))) == 5  # no two have the same name


def test_evaluation_and_worker_settings_do_not_split_groups(tmp_path):
    make_run(tmp_path, 1, [1, 2], num_workers=1, eval_every=0)
    make_run(tmp_path, 2, [1, 2], num_workers=2, eval_every=10)
    assert named(curves.group([tmp_path])) == {"cartpole on CartPole-v1": 2}


def test_a_setting_missing_in_an_older_run_does_not_split_groups(tmp_path):
    make_run(tmp_path, 1, [1, 2])
    make_run(tmp_path, 2, [1, 2], settings={"kl_stop": None})
    assert named(curves.group([tmp_path])) == {"cartpole on CartPole-v1": 2}


def test_the_error_about_a_missing_metric_lists_the_known_ones(tmp_path):
    folder = make_run(tmp_path, 1, [1, 2])
    assert curves.read(folder, "episode/return_mean").step.tolist() == [100, 200]
    with pytest.raises(UserError, match=r"'loss/x'; it has episode/return_mean"):
        curves.read(folder, "loss/x")


def test_a_folder_without_runs_is_told_what_to_pass(tmp_path):
    text = "missing does not exist; pass a run folder or a folder of runs"
    with pytest.raises(UserError, match=text):
        curves.group([tmp_path / "missing"])


def test_values_that_are_not_numbers_are_left_out(tmp_path):
    folder = make_run(tmp_path, 1, [1, None, 3])
    assert curves.read(folder, "episode/return_mean").value.tolist() == [1, 3]


def test_the_mean_of_a_band_is_within_its_interval():
    step = np.array([0, 100, 200])
    lines = [Curve(step, np.array([0.0, 10.0, k])) for k in (10, 20, 30, 40)]
    band = curves.band(lines)
    assert band.step[0] == 0
    assert band.step[-1] == 200
    assert band.mean[-1] == pytest.approx(25)
    assert 10 <= band.low[-1] < 25 < band.high[-1] <= 40
    np.testing.assert_allclose(band.low[:50], band.high[:50])  # where all agree


def test_a_band_spans_the_steps_that_all_curves_cover():
    long = Curve(np.array([0, 100]), np.array([0.0, 1.0]))
    short = Curve(np.array([20, 60]), np.array([1.0, 1.0]))
    band = curves.band([long, short])
    assert (band.step[0], band.step[-1]) == (20, 60)
    assert band.mean[0] == pytest.approx((0.2 + 1.0) / 2)


def test_curves_of_one_point_have_a_band():
    point = Curve(np.array([50]), np.array([3.0]))
    band = curves.band([point, Curve(np.array([10]), np.array([5.0]))])
    assert set(band.step) == {10}
    assert set(band.mean) == {4}
