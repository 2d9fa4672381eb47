"""Our games against the ``minatar`` package, with the same random numbers."""

from __future__ import annotations

import functools
import importlib

import numpy as np
import pytest
import tensorflow as tf

from tfagents_batch import nest, seeds
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
        return [np.abs(drawn), np.where(drawn > 0, 0.9, 0.1)]
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


def play(rules, actions, ramping, restarts=None, change=lambda state, number: state):
    """Many steps of a game in one graph, which is traced once.

    Args:
      rules: of the game.
      actions: int32 ``[T]``.
      ramping: of ``rules.advance``.
      restarts: function of how often the game was over that says whether it begins
        anew then; None never restarts.
      change: function of the state before a step and the step's number.

    Returns:
      what was drawn for the first state and for those after restarts, and the first
      picture; then ``[T, ...]``: states before steps, what was drawn for each step,
      rewards, whether the game was over, whether it was restarted, pictures.
    """

    @functools.partial(tf.function, autograph=False)
    def program():
        drawn = rules.draw(seeds.key(0, "start"))
        first = rules.start(drawn)

        def step(carried, each):
            state, endings, *_ = carried
            number, action = each
            before = change(state, number)
            draw = rules.draw(seeds.key(number, "step"))
            state, reward, over = rules.advance(before, action, draw, ramping)
            endings += tf.cast(over, tf.int32)
            restart = over & restarts(endings) if restarts else tf.zeros_like(over)
            seen = rules.picture(state)
            anew = rules.draw(seeds.key(number, "start"))
            state = nest.where(restart, rules.start(anew), state)
            return state, endings, before, draw, anew, reward, over, restart, seen

        nothing = tf.constant(0), tf.constant(False), tf.constant(False)
        carried = (first, tf.constant(0), first, drawn, drawn, *nothing)
        numbers = tf.range(len(actions)), tf.constant(actions, tf.int32)
        found = tf.scan(step, numbers, (*carried, rules.picture(first)))
        return drawn, rules.picture(first), found[2:]

    return nest.map(lambda x: x.numpy(), program())


def compare(name, theirs, played, change=lambda theirs, number: None, actions=()):
    """Play the package's game with the same random numbers; equal at every step."""
    theirs.random = script = Script()
    drawn, picture, (before, draws, anew, rewards, overs, restarts, pictures) = played
    script.answers = answers(name, drawn, None)
    theirs.reset()
    np.testing.assert_array_equal(picture, theirs.state())
    for number, action in enumerate(actions):
        change(theirs, number)
        row = functools.partial(nest.map, lambda x, t=number: x[t])
        script.answers = answers(name, row(draws), row(before))
        reward, over = theirs.act(int(action))
        assert (rewards[number], overs[number]) == (reward, over), number
        np.testing.assert_array_equal(pictures[number], theirs.state(), str(number))
        if restarts[number]:
            script.answers = answers(name, row(anew), None)
            theirs.reset()
        theirs.terminal = False


@pytest.mark.parametrize(
    "game, ramping",
    [
        *((game, True) for game in GAMES),
        *((game, False) for game in ("asterix", "seaquest", "space_invaders")),
    ],
)
def test_transitions_are_those_of_the_package(game, ramping):
    """Through ends of games too, where the rules allow it: so late states are seen."""
    rules, theirs = GAMES[game].RULES, package(game)(ramping=ramping)
    assert list(rules.actions) == theirs.minimal_action_set()
    random, actions = np.random.default_rng(0), []
    for _ in range(1500):
        # Some actions are held on for a while, and chickens upwards, to get somewhere.
        if not actions or random.random() < 0.4:
            up = game == "freeway" and random.random() < 0.8
            actions.append(grid.UP if up else random.choice(rules.actions))
        else:
            actions.append(actions[-1])
    each = 1 if game == "breakout" else 20
    played = play(rules, actions, ramping, lambda endings: endings % each == 0)
    compare(game, theirs, played, actions=actions)
    *_, rewards, overs, _, _ = played[2]
    assert rewards.sum() > 0
    assert overs.any() or game == "freeway"


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


@functools.cache
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
    theirs = package("seaquest")(ramping=True)
    actions = [4, 5, 1, 2, 5, 3] * 200  # down and up, shooting to both sides in between

    def rescue(state, number):  # so that coming up is no end, and makes it faster
        aboard = tf.where(number % 6 == 0, 6, state.divers_aboard)
        return state._replace(divers_aboard=aboard)

    def rescue_theirs(theirs, number):
        theirs.diver_count = 6 if number % 6 == 0 else theirs.diver_count

    played = play(seaquest.RULES, actions, True, change=rescue)
    compare("seaquest", theirs, played, rescue_theirs, actions)
    assert theirs.e_spawn_speed == 1 and theirs.move_speed == 2
    before, *_ = played[2]
    assert before.spawn_speed[-1] == 1 and before.move_speed[-1] == 2
    most = before.fish.there.sum(-1) + before.submarines.there.sum(-1)
    assert most.max() > 8


def test_freeway_ends_when_the_package_does():
    theirs = package("freeway")(ramping=True)

    def late(state, number):
        return state._replace(left=tf.where(number == 0, 2, state.left))

    def late_theirs(theirs, number):
        theirs.terminate_timer = 2 if number == 0 else theirs.terminate_timer

    actions = [grid.NOOP] * 3
    played = play(freeway.RULES, actions, True, change=late)
    compare("freeway", theirs, played, late_theirs, actions)
    assert played[2][4].tolist() == [False, False, True]
    assert package("freeway")(ramping=True).terminate_timer == freeway.LENGTH


def test_space_invaders_come_back_faster():
    rules = space_invaders.RULES
    state = rules.start(())
    one = np.zeros([10, 10], bool)
    one[7, 5] = True
    state = state._replace(aliens=tf.constant(one), bullets=tf.roll(one, 1, 0))
    state, reward, over = rules.advance(state, tf.constant(0), (), True)
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
