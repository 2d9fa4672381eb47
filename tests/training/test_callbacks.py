import inspect
import re

import numpy as np
import pytest

from tfagents_batch.errors import UserError
from tfagents_batch.logged.reports import RowsReport
from tfagents_batch.training import callbacks
from tfagents_batch.training.callbacks import (
    Callbacks,
    Evaluated,
    Iterated,
    Saved,
    listed,
)
from tfagents_batch.training.evaluate import Evaluation


def evaluation(mean):
    return Evaluation(np.array([mean - 1.0, mean + 1.0]), np.array([5, 7]))


def test_every_callback_is_called_in_order_with_its_event(tmp_path):
    calls = []
    each = Callbacks(
        tmp_path,
        on_iteration=[lambda event: calls.append(1), calls.append],
        on_evaluation=calls.append,
        on_checkpoint=calls.append,
    )
    metrics = {"loss/total": np.float32(2), "histogram/action": np.ones(3)}
    each.iteration(10, lambda: metrics)
    each.evaluation(20, evaluation(3.0), best=True)
    each.checkpoint(30, tmp_path / "checkpoints" / "x", best=False)
    one, iterated, evaluated, saved = calls
    assert one == 1
    assert iterated == Iterated(10, {"loss/total": 2.0}, tmp_path)
    assert isinstance(evaluated, Evaluated)
    assert (evaluated.step, evaluated.best, evaluated.mean_return) == (20, True, 3.0)
    assert evaluated.metrics["eval/return_std"] == 1
    assert evaluated.cut_off_episodes == 0
    assert saved == Saved(30, tmp_path / "checkpoints" / "x", False, tmp_path)
    assert each.stopped_by is None


@pytest.mark.parametrize("returned", [None, True, np.True_])
def test_none_and_true_continue_training(tmp_path, returned):
    each = Callbacks(tmp_path, on_iteration=lambda event: returned)
    each.iteration(1, dict)
    assert each.stopped_by is None


@pytest.mark.parametrize("returned", [False, np.False_])
def test_false_ends_training_and_the_callback_is_named(tmp_path, returned):
    def enough(event):
        return returned

    calls = []
    each = Callbacks(tmp_path, on_iteration=[enough, calls.append])
    each.iteration(1, dict)
    assert each.stopped_by.endswith("enough")
    assert len(calls) == 1  # later callbacks are still called


@pytest.mark.parametrize("returned", [0, 1, "no", 0.0])
def test_other_return_values_are_refused(tmp_path, returned):
    def vague(event):
        return returned

    each = Callbacks(tmp_path, on_evaluation=vague)
    with pytest.raises(UserError, match=r"vague returned .*expected False to end"):
        each.evaluation(1, evaluation(0.0), best=False)


def test_an_exception_is_raised_unchanged_and_ends_all_callbacks(tmp_path):
    error = KeyError("mine")
    calls = []

    def bad(event):
        calls.append(event)
        raise error

    each = Callbacks(tmp_path, on_iteration=[bad, bad], on_checkpoint=calls.append)
    with pytest.raises(KeyError) as caught:
        each.iteration(1, dict)
    assert caught.value is error
    assert each.raised is error
    each.checkpoint(1, tmp_path, best=False)  # the loop saves before it raises
    each.iteration(2, dict)
    assert len(calls) == 1


@pytest.mark.parametrize("given", [3, ["x"], [print, 3]])
def test_a_callback_that_is_not_callable_is_refused(tmp_path, given):
    with pytest.raises(UserError, match="on_checkpoint is"):
        Callbacks(tmp_path, on_checkpoint=given)


def report(step, metrics):
    """Take two arguments, which no callback gets."""


@pytest.mark.parametrize("given", [report, lambda: None, lambda x, *, y: None])
def test_a_callback_that_does_not_take_one_argument_is_refused(given):
    text = re.escape(f"{given.__qualname__}{inspect.signature(given)} of on_iteration")
    with pytest.raises(UserError, match=f"{text} does not take one argument"):
        listed("on_iteration", [print, given])


@pytest.mark.parametrize("given", [dict, max, lambda *x: None, lambda x, y=1: None])
def test_a_callback_that_may_take_one_argument_passes(given):
    assert listed("on_iteration", given) == (given,)


def test_metrics_of_an_iteration_are_only_computed_for_callbacks(tmp_path):
    Callbacks(tmp_path).iteration(1, pytest.fail)


def test_training_stops_at_a_return(tmp_path):
    each = Callbacks(tmp_path, on_evaluation=callbacks.stop_at_return(475))
    for mean in (np.nan, 474.9):
        each.evaluation(1, evaluation(mean), best=True)
        assert each.stopped_by is None
    each.evaluation(2, evaluation(475.0), best=True)
    assert each.stopped_by == "stop_at_return(475)"


def test_training_stops_without_improvement(tmp_path):
    each = Callbacks(tmp_path, on_evaluation=callbacks.stop_without_improvement(2))
    for best in (True, False, True, False):
        each.evaluation(1, evaluation(0.0), best)
        assert each.stopped_by is None
    each.evaluation(2, evaluation(0.0), best=False)
    assert each.stopped_by == "stop_without_improvement(2)"
    with pytest.raises(UserError, match="evaluations is 0"):
        callbacks.stop_without_improvement(0)


def test_every_counts_each_run_separately(tmp_path):
    steps = []
    callback = callbacks.every(100, lambda x: steps.append(x.step))
    for name in ("one", "two"):
        called = Callbacks(tmp_path / name, on_iteration=callback)
        for step in (60, 120, 180, 240):
            called.iteration(step, dict)
    assert steps == [120, 240, 120, 240]


def test_reports_on_rows_are_evaluations_without_returns(tmp_path):
    calls, scored = [], RowsReport({"actions/gain": 1.0}, 0.5)
    Callbacks(tmp_path, on_evaluation=calls.append).evaluation(3, scored, best=True)
    assert calls[0].result is scored and calls[0].metrics == {"actions/gain": 1.0}
    assert np.isnan(calls[0].mean_return)
    ends = Callbacks(tmp_path, on_evaluation=callbacks.stop_at_return(9))
    with pytest.raises(UserError, match=r"stop_at_return\(9\) needs returns"):
        ends.evaluation(3, scored, best=True)


def test_reports_that_nothing_compares_cannot_stop_improving(tmp_path):
    stop = callbacks.stop_without_improvement(2)
    each = Callbacks(tmp_path, on_evaluation=stop)
    each.evaluation(3, RowsReport({}, 0.5), best=True)
    assert each.stopped_by is None
    with pytest.raises(UserError, match=r"stop_without_improvement\(2\) compares"):
        Callbacks(tmp_path, on_evaluation=stop).evaluation(
            4, RowsReport({}, np.nan), best=False
        )


def test_the_score_of_rows_has_the_error_of_its_gain():
    assert RowsReport({"actions/gain_error": 0.2}, 0.5).score_error == 0.2
    assert RowsReport({}, 0.5).score_error == 0
