"""An inner source that replays a script, and a slow replay of lists to compare with."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfagents_batch.types import Collected, TimeStep, Trajectory

KINDS = ("terminate", "truncate", "fail")
WIDE = 80  # floats of an observation that is read by slices


class Case(NamedTuple):
    """Sizes of a test; ``image`` is one of "", "first" and "last" (axis of frames)."""

    batch: int
    k: int
    window: int
    capacity: int
    stack: int | None = None
    image: str = ""
    wide: bool = False
    state: bool = False  # acting records a recurrent state
    goals: bool = False  # observations have goals


def stream(script, size):
    """Return the rows of one environment as arrays.

    Args:
      script: pairs of a length and an ending; it repeats.
      size: number of rows.
    """
    columns = {"first": [], "terminated": [], "truncated": [], "frame": []}

    def add(first, terminated, truncated, frame):
        for column, x in zip(
            columns.values(), (first, terminated, truncated, frame), strict=True
        ):
            column.append(x)

    episode = 0
    while len(columns["first"]) < size:
        length, how = script[episode % len(script)]
        for step in range(length + 1):
            row = len(columns["first"])
            over = step == length
            add(step == 0, over and how == "terminate", over and how == "truncate", row)
        if how == "fail":  # the last observation is repeated
            for _ in range(1 + length % 2):
                add(True, False, True, columns["frame"][-1])
        episode += 1
    return {name: np.array(x[:size]) for name, x in columns.items()}


def frames_of(rows, stack):
    """Return for each row the rows whose frames its stack holds, ``[size, stack]``."""
    found = np.zeros([len(rows["first"]), stack], int)
    for t, (first, last) in enumerate(
        zip(rows["first"], rows["terminated"] | rows["truncated"], strict=True)
    ):
        if first and last:
            found[t] = found[t - 1]
        elif first:
            found[t] = t
        else:
            found[t] = [*found[t - 1, 1:], t]
    return found


def observations(case, rows, env):
    """Return the observations of a stream."""
    size = len(rows["first"])
    uid = np.array([env * 1000 + t for t in range(size)], np.float32)
    if not case.stack:
        if case.wide:
            return np.stack([uid * (i + 1) for i in range(WIDE)], -1)
        plain = np.stack([uid, -uid], -1)
        if case.goals:
            goals = {"achieved_goal": uid[:, None], "desired_goal": -1 - uid[:, None]}
            return {"observation": plain, **goals}
        return plain
    frame = frames_of(rows, case.stack)
    # Pixels of a frame: its row, its environment, and a constant per pixel.
    pixels = np.stack([frame, np.full_like(frame, env)], -1).astype(np.uint8)
    pixels = np.repeat(pixels, 150, -1) if case.wide else pixels
    if case.image == "first":
        image = pixels[..., np.newaxis]  # [size, stack, 2, 1]
    else:
        image = np.moveaxis(pixels, 1, -1)[:, np.newaxis]  # [size, 1, 2, stack]
    return {"image": image, "uid": uid}


class Script(tf.Module):
    """Inner source: collect c gives the rows ``begin[c]`` to ``begin[c] + k``."""

    envs = ()
    compilable = True

    def __init__(self, case, size=120, collects=100):
        super().__init__()
        self.case, self.size = case, size
        rows = stream([(3, "terminate")], size)
        table = self._table([rows] * case.batch)
        self._like = lambda: table
        self._rows = [tf.Variable(x, trainable=False) for x in tf.nest.flatten(table)]
        self._begin = tf.Variable(tf.zeros([collects], tf.int32), trainable=False)
        self._ok = tf.Variable(tf.ones([collects], tf.bool), trainable=False)
        self._count = tf.Variable(0, trainable=False)

    def _table(self, streams):
        """Return time-major steps and actions of streams, as arrays."""
        joined = {
            name: np.stack([rows[name] for rows in streams], 1) for name in streams[0]
        }
        seen = [observations(self.case, rows, env) for env, rows in enumerate(streams)]
        seen = tf.nest.map_structure(lambda *x: np.stack(x, 1), *seen)
        uid = np.arange(self.size)[:, None] + 1000 * np.arange(self.case.batch)
        reward = np.where(joined["first"], 0, uid).astype(np.float32)
        flags = [joined[name] for name in ("first", "terminated", "truncated")]
        action = (uid * 3).astype(np.int32)
        behavior = {"log_prob": -uid.astype(np.float32)}
        if self.case.state:  # of an LSTM, wide enough to be read by slices elsewhere
            cell = np.repeat(uid[..., None], WIDE, -1).astype(np.float32)
            behavior["state"] = ((cell, 2 * cell),)
        return TimeStep(seen, reward, *flags, {}), action, behavior

    def load(self, streams, begin, ok):
        """Set the script."""
        table = self._table(streams)
        for variable, x in zip(self._rows, tf.nest.flatten(table), strict=True):
            variable.assign(x)
        rest = self._begin.shape[0] - len(begin)
        self._begin.assign(np.pad(np.array(begin, np.int32), [0, rest]))
        self._ok.assign(np.pad(np.array(ok, bool), [0, rest]))
        self._count.assign(0)
        return tf.nest.map_structure(np.asarray, table)

    def named_variables(self):
        return {"count": self._count}

    def collect(self, seed, step):
        c, k = self._count.read_value(), self.case.k
        begin = self._begin[c]
        rows = [tf.gather(x.read_value(), begin + tf.range(k + 1)) for x in self._rows]
        steps, action, behavior = tf.nest.pack_sequence_as(self._like(), rows)
        action, behavior = tf.nest.map_structure(lambda x: x[:-1], (action, behavior))
        trajectory = Trajectory(steps, action, behavior)
        self._count.assign_add(1)
        made = tf.reduce_sum(tf.cast(trajectory.mask, tf.int64))
        ones = tf.constant(1)
        return Collected(made, self._ok[c], ones, {"env/x": ones}, trajectory)


class Slow:
    """The replay as a list of rows for each environment.

    Attributes:
      rows: for each environment the stored rows, oldest first: ``(t, failed, first)``
        of row t of the stream, as stored.
    """

    def __init__(self, case, table):
        self.case, self.table = case, table
        self.rows = [[] for _ in range(case.batch)]
        self.broken = True

    def collect(self, begin, ok):
        if not ok:
            self.broken = True
            return
        room = self.case.capacity // self.case.batch + 1
        for rows in self.rows:
            for t in range(begin + (not self.broken), begin + self.case.k + 1):
                rows.append((t, self.broken and t == begin))
            del rows[:-room]
        self.broken = False

    def flags(self, env):
        """Return first, last and terminated of the stored rows."""
        steps, stack = self.table[0], self.case.stack or 1
        found = []
        since, opened = None, True  # rows since the last break; opened after it?
        for t, broke in self.rows[env]:
            first = bool(steps.first[t, env])
            terminated = bool(steps.terminated[t, env])
            truncated = bool(steps.truncated[t, env])
            healthy = first and not (terminated or truncated)
            if broke:
                since, opened = 0, False
            opened |= healthy
            # Rows whose break is no longer stored have been stored for long.
            failed = since is not None and not opened and since < stack - 1
            found.append((first or broke or failed, terminated, truncated or failed))
            if since is not None:
                since += 1
        return found

    def starts(self):
        """Return the pairs (env, index) of rows that may start a window."""
        found = []
        for env, rows in enumerate(self.rows):
            flags = self.flags(env)
            oldest = (self.case.stack or 1) - 1
            for i in range(oldest, len(rows) - self.case.window + 1):
                last, first = flags[i][1] or flags[i][2], flags[i + 1][0]
                if not (last or first):
                    found.append((env, i))
        return found

    def compare(self, trajectory, n, env, index):
        """Check window ``n`` of a sample against the rows from ``index`` on."""
        steps, action, behavior = self.table
        rows = [t for t, _ in self.rows[env][index : index + self.case.window]]
        flags = np.array(self.flags(env)[index : index + self.case.window])
        found = trajectory.steps
        np.testing.assert_array_equal(found.first[:, n], flags[:, 0])
        np.testing.assert_array_equal(found.terminated[:, n], flags[:, 1])
        np.testing.assert_array_equal(found.truncated[:, n], flags[:, 2])
        np.testing.assert_array_equal(found.reward[:, n], steps.reward[rows, env])
        valid = ~(flags[:, 0] & (flags[:, 1] | flags[:, 2]))
        for mine, other in zip(
            tf.nest.flatten(found.observation),
            tf.nest.flatten(steps.observation),
            strict=True,
        ):
            seen = valid if mine.dtype == np.uint8 else slice(None)
            np.testing.assert_array_equal(mine[seen, n], other[rows, env][seen])
        np.testing.assert_array_equal(trajectory.action[:, n], action[rows[:-1], env])
        np.testing.assert_array_equal(
            trajectory.behavior["log_prob"][:, n], behavior["log_prob"][rows[:-1], env]
        )
        assert list(trajectory.behavior) == ["log_prob"]
        states = tf.nest.flatten(behavior.get("state", ()))
        for mine, other in zip(
            tf.nest.flatten(trajectory.state), states, strict=True
        ):  # of the first step only
            np.testing.assert_array_equal(mine[n], other[rows[0], env])


def uid(trajectory):
    """Return the numbers of the first rows, ``1000 env + row``."""
    seen = trajectory.steps.observation
    if isinstance(seen, dict):
        seen = seen["uid"][0] if "uid" in seen else seen["achieved_goal"][0, :, 0]
    else:
        seen = seen[0, :, 0]
    return np.asarray(seen).astype(int)
