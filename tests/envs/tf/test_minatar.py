"""Our games against the ``minatar`` package, with the same random numbers."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.envs.tf.minatar import (
    asterix,
    breakout,
    freeway,
    grid,
    seaquest,
    space_invaders,
)

GAMES = {
    "asterix": asterix,
    "breakout": breakout,
    "freeway": freeway,
    "seaquest": seaquest,
    "space_invaders": space_invaders,
}


class Script:
    """A ``RandomState`` that answers what our game has drawn."""

    def __init__(self):
        self.answers = []

    def rand(self, *_):
        return self.answers.pop(0)

    def randint(self, *args, **kwargs):
        answer = self.answers.pop(0)
        return answer(*args, **kwargs) if callable(answer) else answer


def answers(name, drawn, state):
    """What the package will ask for in a step from ``state``, in its order."""
    number = lambda flag: 0.0 if flag else 0.9  # noqa: E731  # flags are rand() < p
    if name == "breakout":
        return [int(drawn)]
    if name == "freeway":
        return [np.abs(drawn.numpy()), np.where(drawn.numpy() > 0, 0.9, 0.1)]
    if name == "asterix":
        lane = float(drawn.lane)
        right, gold = number(drawn.right), number(drawn.gold)
        return [right, gold, lambda count: int(np.float32(lane) * np.float32(count))]
    found = []
    if name == "seaquest" and state is not None:
        if state.spawn_timer == 0:
            found += [number(drawn.right), number(drawn.submarine), int(drawn.row)]
        if state.diver_timer == 0:
            found += [number(drawn.diver_right), int(drawn.diver_row)]
    return found


def package(name):
    pytest.importorskip("minatar")
    return importlib.import_module(f"minatar.environments.{name}").Env


@pytest.fixture(scope="module", params=GAMES)
def game(request):
    return request.param


def programs(rules, ramping):
    """A game's functions, traced once."""
    draw = tf.function(
        lambda seed, what: rules.draw(seeds.key(seed, what)), autograph=False
    )
    start = tf.function(lambda drawn: rules.start(drawn), autograph=False)
    step = tf.function(
        lambda state, action, drawn: rules.advance(state, action, drawn, ramping),
        autograph=False,
    )
    picture = tf.function(rules.picture, autograph=False)
    return lambda number, what: draw(tf.constant(number), what), start, step, picture


@pytest.mark.parametrize("ramping", [True, False])
def test_transitions_are_those_of_the_package(game, ramping):
    """Through ends of games too, where the rules allow it: so late states are seen."""
    rules = GAMES[game].RULES
    draw, start, step, picture = programs(rules, ramping)
    random, script = np.random.default_rng(0), Script()
    theirs = package(game)(ramping=ramping)
    theirs.random = script

    def restart(number):
        drawn = draw(number, "start")
        script.answers = answers(game, drawn, None)
        theirs.reset()
        return start(drawn)

    assert list(rules.actions) == theirs.minimal_action_set()
    state, rewards, endings = restart(0), 0, 0
    np.testing.assert_array_equal(picture(state), theirs.state())
    held = 0
    for number in range(1500):
        # Some actions are held on for a while, and chickens upwards, to get somewhere.
        if random.random() < 0.4:
            up = game == "freeway" and random.random() < 0.8
            held = grid.UP if up else random.choice(rules.actions)
        drawn = draw(number, "step")
        script.answers = answers(game, drawn, state)
        reward, over = theirs.act(int(held))
        state, our_reward, our_over = step(state, tf.constant(int(held)), drawn)
        assert (int(our_reward), bool(our_over)) == (int(reward), over), number
        np.testing.assert_array_equal(picture(state), theirs.state(), str(number))
        rewards, endings = rewards + reward, endings + over
        if over and (game == "breakout" or endings % 20 == 0):
            state = restart(number)
        theirs.terminal = False
    assert rewards > 0
    assert endings > 0 or game == "freeway"


@pytest.mark.parametrize(
    ("rules", "chances"),
    [
        (asterix.RULES, {"right": 1 / 2, "gold": 1 / 3}),
        (
            seaquest.RULES,
            {"right": 1 / 2, "submarine": 1 / 3, "diver_right": 1 / 2},
        ),
    ],
)
def test_chances_are_those_of_the_package(rules, chances):
    drawn = many(rules)._asdict()
    for name, chance in chances.items():
        # Of 4096: three standard deviations are 0.024 at most.
        assert abs(np.mean(drawn[name]) - chance) < 0.024, name


def test_numbers_that_are_drawn_are_spread_evenly_over_the_packages_range():
    lanes = many(asterix.RULES).lane.numpy()
    found = {
        "ball": (many(breakout.RULES).numpy(), [0, 1]),
        "speed": (many(freeway.RULES).numpy().ravel(), [*range(-5, 0), *range(1, 6)]),
        "row": (many(seaquest.RULES).row.numpy(), range(1, 9)),
        "diver": (many(seaquest.RULES).diver_row.numpy(), range(1, 9)),
        "lane": (np.floor(4 * lanes).astype(int), range(4)),
    }
    for name, (drawn, expected) in found.items():
        values, counts = np.unique(drawn, return_counts=True)
        assert values.tolist() == list(expected), name
        share = counts / counts.sum() * len(expected)
        np.testing.assert_allclose(share, 1, atol=0.2, err_msg=name)


def many(rules):
    """What a game draws, 4096 times."""
    key = seeds.key(1, "many")
    draw = tf.function(
        lambda: tf.vectorized_map(
            lambda i: rules.draw(seeds.fold(key, i)), tf.range(4096)
        ),
        autograph=False,
    )
    return draw()


def test_seaquest_gets_as_fast_as_the_package_does():
    """From a late state, with many enemies; the submarine comes up again and again."""
    rules = seaquest.RULES
    draw, start, step, picture = programs(rules, True)
    theirs, script = package("seaquest")(ramping=True), Script()
    theirs.random = script
    state = start(draw(0, "start"))
    most = 0
    for number in range(1200):
        # Down and up, shooting to both sides in between.
        action = [4, 5, 1, 2, 5, 3][number % 6]
        drawn = draw(number, "late")
        script.answers = answers("seaquest", drawn, state)
        if number % 6 == 0:  # so that coming up is no end, and makes it faster
            theirs.diver_count = 6
            state = state._replace(divers_aboard=tf.constant(6))
        reward, over = theirs.act(action)
        state, our_reward, our_over = step(state, tf.constant(action), drawn)
        assert (int(our_reward), bool(our_over)) == (int(reward), over), number
        np.testing.assert_array_equal(picture(state), theirs.state(), str(number))
        theirs.terminal = False
        most = max(most, len(theirs.e_fish) + len(theirs.e_subs))
    assert theirs.e_spawn_speed == 1 and theirs.move_speed == 2
    assert int(state.spawn_speed) == 1 and int(state.move_speed) == 2
    assert most > 8


def test_freeway_ends_when_the_package_does():
    rules = freeway.RULES
    draw, start, step, _ = programs(rules, True)
    theirs, script = package("freeway")(ramping=True), Script()
    theirs.random = script
    script.answers = answers("freeway", drawn := draw(0, "start"), None)
    theirs.reset()
    state = start(drawn)
    assert int(state.left) == theirs.terminate_timer
    state = state._replace(left=tf.constant(2))
    theirs.terminate_timer = 2
    endings = []
    for number in range(3):
        _, over = theirs.act(grid.NOOP)
        state, _, our_over = step(state, tf.constant(grid.NOOP), draw(number, "step"))
        endings.append((bool(our_over), over))
    assert endings == [(False, False), (False, False), (True, True)]


def test_space_invaders_come_back_faster():
    rules = space_invaders.RULES
    _, _, step, _ = programs(rules, True)
    state = rules.start(())
    one = np.zeros([10, 10], bool)
    one[7, 5] = True
    state = state._replace(aliens=tf.constant(one), bullets=tf.roll(one, 1, 0))
    state, reward, over = step(state, tf.constant(0), ())
    assert int(reward) == 1 and not over
    assert int(state.pace) == space_invaders.PACE - 1
    np.testing.assert_array_equal(state.aliens, space_invaders.SWARM)


def test_the_last_action_sticks_now_and_then():
    import tfagents_batch as tfb

    kwargs = {"sticky_action_prob": 1.0, "use_minimal_action_set": False}
    env = tfb.make_env("tf/MinAtar/Breakout-v1", num_envs=2, env_kwargs=kwargs)
    state, _ = env.init(1)
    for _ in range(3):
        state, _ = env.step(state, tf.constant([1, 3]))
    np.testing.assert_array_equal(state.inner.game.paddle, [4, 4])  # none before
    assert env.spec.action_space.n == 6
