"""Our games, compiled, against the ``minatar`` package, with equal random numbers."""

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
from tfagents_batch.envs.tf.minatar.game import MinAtar

GAMES = {
    game.__name__.rpartition(".")[2]: game
    for game in (asterix, breakout, freeway, seaquest, space_invaders)
}


class Script:
    """A ``RandomState`` that returns the numbers that our game has drawn."""

    def __init__(self):
        self.answers = []

    def rand(self, *_):
        return self.answers.pop(0)

    def randint(self, *args, **kwargs):
        answer = self.answers.pop(0)
        return answer(*args, **kwargs) if callable(answer) else answer


def answers(name, drawn, state):
    """Return the numbers that the package draws in a step from ``state``, in order."""
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


# Changes of a game: a field of our state, the attribute of the package's game, their
# new value, and the numbers of the steps before which they get it.
CHANGES = {
    "seaquest": ("divers_aboard", "diver_count", 6, lambda number: number % 6 == 0),
    "freeway": ("left", "terminate_timer", 2, lambda number: number == 0),
}
MOST = 1500  # steps


@functools.cache
def program(game):
    """Return a compiled program of ``MOST`` steps of a game; see ``play``."""
    rules = GAMES[game].RULES

    def change(state, number):
        if game not in CHANGES:
            return state
        field, _, value, is_due = CHANGES[game]
        new = tf.where(is_due(number), value, getattr(state, field))
        return state._replace(**{field: new})

    @functools.partial(tf.function, autograph=False, jit_compile=True)
    def run(actions, ramping, each, changed):
        drawn = rules.draw(seeds.key(0, "start"))
        first = rules.start(drawn)

        def step(carried, each_step):
            state, endings, *_ = carried
            number, action = each_step
            before = nest.where(changed, change(state, number), state)
            draw = rules.draw(seeds.key(number, "step"))
            state, reward, over = rules.advance(before, action, draw, ramping)
            endings += tf.cast(over, tf.int32)
            restart = over & (endings % each == 0)
            picture = rules.picture(state)
            redraw = rules.draw(seeds.key(number, "start"))
            state = nest.where(restart, rules.start(redraw), state)
            flags = over, restart
            return state, endings, before, draw, redraw, reward, *flags, picture

        nothing = tf.constant(0), tf.constant(False), tf.constant(False)
        carried = (first, tf.constant(0), first, drawn, drawn, *nothing)
        numbers = tf.range(MOST), actions
        found = tf.scan(step, numbers, (*carried, rules.picture(first)))
        return drawn, rules.picture(first), found[2:]

    return run


def play(game, actions, ramping=True, each=10**9, changed=False):
    """Play ``T`` actions of a game.

    Args:
      ramping: argument of ``rules.advance``.
      each: restart the game after it was over this many times.
      changed: whether ``CHANGES`` changes the states.

    Returns:
      random numbers of the first state, first picture, and a tuple of ``[T, ...]``:
      states before the steps, random numbers of the steps and of possible restarts,
      rewards, whether the game was over, whether it was restarted, and pictures.
    """
    padded = np.pad(actions, [0, MOST - len(actions)]).astype(np.int32)
    ramping = ramping if game == "asterix" else tf.constant(ramping)
    options = ramping, tf.constant(each), tf.constant(changed)
    drawn, picture, steps = program(game)(tf.constant(padded), *options)
    steps = nest.map(lambda x: x[: len(actions)], steps)
    return nest.map(lambda x: x.numpy(), (drawn, picture, steps))


def compare(name, theirs, played, actions, changed=False):
    """Play the package's game with the same random numbers, and compare each step."""
    theirs.random = script = Script()
    drawn, picture, (before, draws, again, rewards, overs, restarts, pictures) = played
    script.answers = answers(name, drawn, None)
    theirs.reset()
    np.testing.assert_array_equal(picture, theirs.state())
    for number, action in enumerate(actions):
        if changed and CHANGES[name][3](number):
            setattr(theirs, *CHANGES[name][1:3])
        row = functools.partial(nest.map, lambda x, t=number: x[t])
        script.answers = answers(name, row(draws), row(before))
        reward, over = theirs.act(int(action))
        assert (rewards[number], overs[number]) == (reward, over), number
        np.testing.assert_array_equal(pictures[number], theirs.state(), str(number))
        if restarts[number]:
            script.answers = answers(name, row(again), None)
            theirs.reset()
        theirs.terminal = False


@pytest.mark.parametrize(
    "game, ramping",
    [
        *((game, True) for game in GAMES),
        *((game, False) for game in ("asterix", "seaquest", "space_invaders")),
    ],
)
def test_transitions_equal_those_of_the_package(game, ramping):
    """Some games continue after their end, to reach late states."""
    rules, theirs = GAMES[game].RULES, package(game)(ramping=ramping)
    assert list(rules.actions) == theirs.minimal_action_set()
    random, actions = np.random.default_rng(0), []
    for _ in range(MOST if ramping else 1000):
        # Repeated actions get further than noise; chickens mostly move upwards.
        if not actions or random.random() < 0.4:
            up = game == "freeway" and random.random() < 0.8
            actions.append(grid.UP if up else random.choice(rules.actions))
        else:
            actions.append(actions[-1])
    played = play(game, actions, ramping, 1 if game == "breakout" else 20)
    compare(game, theirs, played, actions)
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
def test_probabilities_equal_those_of_the_package(rules, chances):
    drawn = many(rules)._asdict()
    for name, chance in chances.items():
        # Of 4096: three standard deviations are 0.024 at most.
        assert abs(np.mean(drawn[name]) - chance) < 0.024, name


def test_draws_are_uniform_over_the_range_of_the_package():
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
    """Return 4096 draws of a game."""
    key = seeds.key(1, "many")
    draw = tf.function(
        lambda: tf.vectorized_map(
            lambda i: rules.draw(seeds.fold(key, i)), tf.range(4096)
        ),
        autograph=False,
    )
    return draw()


def test_seaquest_gets_as_fast_as_the_package_does():
    """The submarine surfaces often, so the game gets fast and has many enemies."""
    theirs = package("seaquest")(ramping=True)
    actions = [4, 5, 1, 2, 5, 3] * 200  # down, fire, left, up, fire, right
    played = play("seaquest", actions, changed=True)  # surfacing with divers
    compare("seaquest", theirs, played, actions, changed=True)
    assert theirs.e_spawn_speed == 1 and theirs.move_speed == 2
    before, *_ = played[2]
    assert before.spawn_speed[-1] == 1 and before.move_speed[-1] == 2
    most = before.fish.present.sum(-1) + before.submarines.present.sum(-1)
    assert most.max() > 8


def test_freeway_ends_when_the_package_does():
    theirs = package("freeway")(ramping=True)
    actions = [grid.NOOP] * 3
    played = play("freeway", actions, changed=True)
    compare("freeway", theirs, played, actions, changed=True)
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


def test_sticky_actions_repeat_the_last_action():
    kwargs = {"sticky_action_prob": 1.0, "use_minimal_action_set": False}
    env = MinAtar(breakout.RULES, **kwargs)
    assert env.action_space.n == 6
    for action in (grid.LEFT, grid.RIGHT):
        state, _ = env.reset(seeds.key(1, "start"))
        state, *_ = env.step(state, tf.constant(action), seeds.key(1, "step"))
        assert state.game.paddle == 4  # a repeated no-op
