import math

import numpy as np
import pytest
import tensorflow as tf

from tfagents_batch.errors import UserError
from tfagents_batch.training import saving
from tfagents_batch.training.run_folder import replay_file
from tfagents_batch.training.saving import ReplaySaver


class Source:
    """A source whose variables are saved in files of their own."""

    class config:
        save_every = 1e-9

    def __init__(self, value=0):
        self.ring = tf.Variable(np.full([100, 4], value, np.float32))
        self.state = tf.Variable(value)
        self.interrupted, self.begin = False, None

    def named_variables(self):
        return {"ring": self.ring, "inner/state": self.state}

    def check_numbers(self, numbers):
        if numbers.get("inner/state", 0) > 10:
            raise ValueError("state is too large")

    def interrupt(self):
        self.interrupted = True

    def postpone(self, step):
        self.begin = step + 30
        return 30


def fail(event):
    pytest.fail(str(event))


def saved(tmp_path, step=50, value=7):
    assert ReplaySaver(Source(value), tmp_path, 0, fail).save(step, math.inf)


def restore(tmp_path, step, exact=True):
    source = Source(1)
    text = saving.restore(source, tmp_path, step, exact)
    return source, text


def test_a_replay_of_the_same_step_is_restored_with_its_environments(tmp_path):
    saved(tmp_path)
    source, text = restore(tmp_path, 50)
    assert (float(source.ring[0, 0]), int(source.state)) == (7, 7)
    assert not source.interrupted and text == "restored the replay of step 50"


@pytest.mark.parametrize("step, exact", [(60, True), (50, False)])
def test_otherwise_environments_start_anew_and_the_difference_is_named(
    tmp_path, step, exact
):
    saved(tmp_path)
    source, text = restore(tmp_path, step, exact)
    assert (float(source.ring[0, 0]), int(source.state)) == (7, 1)
    assert source.interrupted
    assert ("lacks the last 10 steps" in text) == (step == 60)


def test_without_a_replay_the_warmup_begins_again(tmp_path):
    source, text = restore(tmp_path, 60)
    assert source.begin == 90 and float(source.ring[0, 0]) == 1
    assert text == "there is no replay; updates begin after 30 steps"


def test_a_replay_newer_than_the_weights_is_used(tmp_path):
    """The weights of its step may be damaged; they are older ones then."""
    saved(tmp_path, step=90)
    source, text = restore(tmp_path, 60)
    assert (float(source.ring[0, 0]), int(source.state)) == (7, 1)
    assert source.interrupted and source.begin is None
    assert text == "restored the replay of step 90, which is newer than the weights"


def test_numbers_that_make_no_sense_are_refused_and_nothing_is_assigned(tmp_path):
    saved(tmp_path, value=11)
    source = Source(1)
    with pytest.raises(UserError, match=r"cannot be used .*state is too large"):
        saving.restore(source, tmp_path, 50, exact=True)
    assert (float(source.ring[0, 0]), int(source.state)) == (1, 1)


def test_nothing_is_saved_before_anything_new_was_collected(tmp_path):
    saved(tmp_path)
    saver = ReplaySaver(Source(1), tmp_path, 50, fail)
    assert saver.save(50, math.inf)
    assert float(restore(tmp_path, 50)[0].ring[0, 0]) == 7


def test_a_write_that_does_not_fit_the_time_left_is_skipped_and_named(tmp_path):
    events = []
    saver = ReplaySaver(Source(), tmp_path, 0, events.append)
    assert saver.save(50, seconds_left=1e-9)
    assert replay_file.newest(tmp_path, 50) is None
    (event,) = events
    assert event["event"] == "replay_failed"
    assert "is not saved" in event["reason"]
    assert saver.save(50, seconds_left=1)
    assert replay_file.newest(tmp_path, 50) == 50


def test_a_full_disk_is_an_event_and_the_next_save_is_tried(tmp_path, monkeypatch):
    events = []
    saver = ReplaySaver(Source(), tmp_path, 0, events.append)
    with monkeypatch.context() as patch:
        patch.setattr(replay_file.os, "fsync", full)
        assert not saver.save(50, math.inf)
    (event,) = events
    assert event["event"] == "replay_failed"
    assert "could not be saved" in event["reason"]
    assert saver.save(50, math.inf)
    assert replay_file.newest(tmp_path, 50) == 50


def full(descriptor):
    raise OSError(28, "No space left on device")


def test_other_sources_are_left_alone(tmp_path):
    saver = ReplaySaver(object(), tmp_path, 0, fail)
    assert not saver.due()
    assert saver.save(50, math.inf)
    assert saving.restore(object(), tmp_path, 50, True) == ""
    assert not list(tmp_path.iterdir())
