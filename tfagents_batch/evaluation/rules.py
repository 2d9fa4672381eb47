"""Rules that decide whether a policy is deployed, from its evaluation."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from tfagents_batch import config
from tfagents_batch.config import number, option
from tfagents_batch.errors import UserError
from tfagents_batch.evaluation.result import (
    Estimate,
    EstimateInterval,
    OfflineEvaluation,
)
from tfagents_batch.offline import publish
from tfagents_batch.schedules import is_finite

Verdict = Literal["deploy", "do not deploy", "cannot tell"]
RulingState = Literal["passed", "failed", "unknown"]
EXITS: dict[Verdict, int] = {"deploy": 0, "do not deploy": 1, "cannot tell": 3}
_FEW = 10  # effective episodes below which a weighted estimate is chance
_SAME = 1e-9  # standard error of a difference, below which there is none
_SURE = 3.0  # standard errors of a difference that is no chance
_ALIKE = 1e-4  # loss of effective episodes by weights that are 1 but for rounding
_MOST_ERROR = 0.5  # of fitted values, as a part of the size of returns
_MOST_BIAS = 0.25  # of FQE where it decides, as a part of the log's value
_MOST_TIMES = 100  # largest advice, as a multiple of the episodes that were logged


@dataclasses.dataclass(frozen=True)
class DeployRules:
    """Limits of the rules."""

    uplift: float = option(
        0.0, "improvement over the log that is needed: 0.05 is 5 % of its value"
    )
    estimator: Literal["auto", "fqe", "sdr", "wsdr"] = option(
        "auto",
        "estimator that decides; auto: wsdr with enough effective episodes, else fqe",
    )
    least_effective: float = number(
        50.0, "effective episodes that weighted estimators need", least=0
    )
    least_effective_share: float = number(
        0.01, "the same as a share of all episodes", least=0, most=1
    )
    most_reach: float = number(
        0.05,
        "chance of ever taking a hardly logged decision, where no known weights decide",
        least=0,
        most=1,
    )
    most_rare: float = number(
        0.01, "share of decisions that were logged with less than 1 %", least=0, most=1
    )
    agreement: float = number(
        2.0, "standard errors between estimators of two kinds, at most", above=0
    )
    most_variation: float = number(
        1.0, "total variation between logged and served actions", least=0, most=1
    )
    most_actions: dict = option({}, "largest share of actions, by name")
    guards: dict = option(
        {},
        "metrics that must stay inside a band, by name: [low, high] of its sum in an "
        "episode, null for no bound",
    )

    def check(self) -> DeployRules:
        """Return the checked rules; UserError for a rule that is invalid."""
        checked = config.check(self, "rules.")
        for name, x in checked.most_actions.items():
            if not isinstance(x, (int, float)) or not 0 <= x <= 1:
                raise UserError(
                    f"rules.most_actions has {name}: {x!r}; expected 0 to 1"
                )
        for name, band in checked.guards.items():
            fits = isinstance(band, (list, tuple)) and len(band) == 2
            fits = fits and all(x is None or is_finite(x) for x in band)
            if not fits or (None not in band and band[0] > band[1]):
                raise UserError(
                    f"rules.guards has {name}: {band!r}; expected [low, high], null "
                    "for no bound"
                )
        return checked


class Ruling(NamedTuple):
    """Statement of a rule."""

    rule: str  # name of the rule
    state: RulingState  # "failed": unwanted; "unknown": nothing can be said
    text: str  # the reason, one sentence


class DeployDecision(NamedTuple):
    """Result of the rules."""

    verdict: Verdict  # "deploy", "do not deploy" or "cannot tell"
    reason: str  # why, in words
    estimator: str  # estimator that decided
    findings: tuple[Ruling, ...]  # of all rules, in order

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        findings = [x._asdict() for x in self.findings]
        return {**self._asdict(), "findings": findings}


def read(path: str | os.PathLike[str]) -> DeployRules:
    """Return the rules of a JSON file; UserError if it cannot be read."""
    content = publish.read_json(path)
    return config.replace(DeployRules(), content, "rules.").check()


def check_names(
    rules: DeployRules, actions: Sequence[str], metrics: Sequence[str]
) -> None:
    """Check that rules name only actions and metrics of the rows; UserError if not."""
    for rule, known in (("most_actions", actions), ("guards", metrics)):
        if unknown := sorted(set(getattr(rules, rule)) - set(known)):
            raise UserError(
                f"rules.{rule} names {', '.join(unknown)}; expected names out of "
                f"{', '.join(known)}"
            )


def decide(result: OfflineEvaluation, rules: DeployRules) -> DeployDecision:
    """Apply the rules.

    A policy that breaks a limit of its actions is not deployed. Where values cannot be
    trusted, or are neither surely good enough nor surely too bad, nothing can be told.
    Else a policy is not deployed whose value is too small, or whose metrics break a
    limit. UserError if rules name actions or metrics that the evaluation does not have.
    """
    check_names(rules, tuple(result.diagnostics.served), result.metrics)
    estimator = rules.estimator
    if estimator == "auto":
        estimator = "wsdr" if _enough(result, rules) else "fqe"
    other = "wsdr" if estimator == "fqe" else "fqe"  # which has to agree
    limits = tuple(_actions(result, rules))
    value = _value(result, rules, estimator)
    judges = _judges(result)
    trust = [judges, *_overlap(result, rules, estimator), *_fit(result, estimator)]
    if value.state == _value(result, rules, other).state == "failed":
        both = f"{estimator.upper()} and {other.upper()} both say that it is too small."
        trust.append(Ruling("two estimators", "passed", both))
    else:
        trust.append(_agreement(result, rules, estimator, other))
    findings = (*trust, value, *_guards(result, rules, estimator), *limits)
    steps: tuple[tuple[Verdict, RulingState, Sequence[Ruling]], ...] = (
        ("do not deploy", "failed", limits),
        ("cannot tell", "unknown", findings),
        ("do not deploy", "failed", findings),
        ("deploy", "passed", (value, judges)),
    )
    for verdict, state, judged in steps:
        if reasons := [x.text for x in judged if x.state == state]:
            return DeployDecision(verdict, " ".join(reasons), estimator, findings)
    raise AssertionError("the value has a state")


def _needed(result: OfflineEvaluation, rules: DeployRules) -> float:
    share = rules.least_effective_share * result.diagnostics.episodes
    return max(rules.least_effective, share)


def _enough(result: OfflineEvaluation, rules: DeployRules) -> bool:
    return result.diagnostics.effective_least >= _needed(result, rules)


def _judges(result: OfflineEvaluation) -> Ruling:
    """Return whether the policy cannot have been made from the rows that judge it."""
    episodes = f"{result.diagnostics.episodes:,} episodes for evaluation are used"
    lucky = result.values_from == "rows for training"
    text = {
        "unseen": "which its training has not seen.",
        "no rows": "and its training saw no logged rows.",
        "stated": "from which the function must not have been made.",
        "unknown": "but its training may have seen them: the run does not say which "
        "rows it saw, or they have another --salt. Train it again with this version, "
        "on a timeline with the same --salt.",
    }[result.judged_by]
    if lucky and result.judged_by in ("unseen", "stated"):
        text += (
            " But values are fitted to the rows for training, from which the policy "
            "may have been made, so they share its luck. Leave --folds out."
        )
    fits = result.judged_by == "no rows" or not (lucky or result.judged_by == "unknown")
    return _trust("rows that judge", fits, f"{episodes}, {text}")


def _overlap(
    result: OfflineEvaluation, rules: DeployRules, estimator: str
) -> Iterator[Ruling]:
    """Yield whether the log has enough of what the policy does."""
    diagnostics = result.diagnostics
    enough = _enough(result, rules)
    yield _trust(
        "episodes",
        diagnostics.episodes >= _FEW,
        f"There are {diagnostics.episodes:,} episodes for evaluation; at least {_FEW} "
        "are needed for an interval.",
    )
    text = (
        f"The log is worth {diagnostics.effective_least:,.1f} episodes of this policy "
        f"(effective sample size; {_needed(result, rules):,.0f} are needed for "
        "estimates by weights)"
    )
    weightless = estimator == "fqe" and not enough
    text += "; FQE needs no weights." if weightless else "."
    yield _trust("effective episodes", enough or weightless, text)
    # Known weights tell it of each decision, and not only of groups of similar states,
    # of which some have few rows however much the log explores.
    if estimator == "fqe" or result.propensities != "logged":
        yield _trust(
            "reach",
            diagnostics.reach <= rules.most_reach,
            f"With a chance of {diagnostics.reach:.1%}, an episode of the policy has a "
            "decision that the log has fewer than 5 times in similar states; at most "
            f"{rules.most_reach:.1%} is allowed. More episodes for evaluation, more "
            "random decisions in the log, or fewer features lower this.",
        )
    yield _trust(
        "rare decisions",
        diagnostics.rare <= rules.most_rare,
        f"The log takes {diagnostics.rare:.1%} of the policy's decisions with a "
        f"probability below 1 %; at most {rules.most_rare:.1%} is allowed.",
    )
    if enough:
        away = abs(diagnostics.mean_weight - 1)
        yield _trust(
            "mean weight",
            # Propensities of a policy that is judged by its own log are rounded.
            away <= _SURE * diagnostics.mean_weight_error + 1e-3,
            f"Weights have the mean {diagnostics.mean_weight:.3f} +- "
            f"{diagnostics.mean_weight_error:.3f}; it is 1 if propensities are right.",
        )
    if result.propensities == "logged":
        surprise, error = diagnostics.surprise, diagnostics.surprise_error
        fits = surprise - _SURE * error <= 1e-3
        pair = "The probabilities of a model", "The logged propensities"
        better, worse = pair if surprise > 0 else reversed(pair)
        text = (
            f"{better} predict the logged actions better than {worse.lower()}, by "
            f"{abs(surprise):.3f} +- {error:.3f} nats per decision"
        )
        text += "." if fits else "; so these are not those of the logging policy."
        yield _trust("propensities", fits, text)


def _fit(result: OfflineEvaluation, estimator: str) -> Iterator[Ruling]:
    """Yield whether the fitted values make sense."""
    diagnostics, logged = result.diagnostics, result.logged["reward"]
    bias, fqe = diagnostics.fit_bias, result.estimates["fqe"]["reward"]
    # Root mean square of logged returns. FQE's own value says nothing if it diverged.
    size = float(
        np.hypot(logged.value, logged.std_error * np.sqrt(diagnostics.episodes))
    )
    yield _trust(
        "range of values",
        diagnostics.outside <= 0.01,
        f"{diagnostics.outside:.1%} of the fitted values are beyond what the rewards "
        "of the log make possible; at most 1.0% is allowed.",
    )
    error = diagnostics.fit_bias_error
    text = (
        f"By its errors in the log, FQE may be too {'low' if bias > 0 else 'high'} by "
        f"{abs(bias):.2g} +- {error:.2g}"
    )
    if known := error <= _MOST_ERROR * size:  # false for NaN
        if estimator != "fqe":
            text += f", which {estimator.upper()} corrects"
        text += ". Other --fit.steps (fewer for a small log), --values=tabular or "
        text += "--folds=5 may lower this."
    else:
        text += (
            f", and an episode of the log is worth about {size:.2g}: the fit may have "
            "diverged. Make the timeline with --features, or take a smaller "
            "--fit.learning_rate."
        )
    unbiased = abs(bias) <= _SURE * error + 0.02 * size
    if estimator == "fqe" and fqe.ratio is not None:
        unbiased = unbiased and abs(bias) <= _MOST_BIAS * abs(logged.value)
    yield _trust("errors of values", known and unbiased, text)
    rose = "rose" if diagnostics.rising else "did not rise"
    yield _trust(
        "fit", not diagnostics.rising, f"The loss of the fit {rose} at the end."
    )


def _agreement(
    result: OfflineEvaluation, rules: DeployRules, estimator: str, other: str
) -> Ruling:
    """Return whether an estimator of another kind says the same."""
    if estimator == "fqe" and result.diagnostics.effective_least < _FEW:
        text = (
            f"Not tested: weights of fewer than {_FEW} effective episodes say nothing "
            "of FQE."
        )
        return _trust("two estimators", True, text)
    values = [result.estimates[x]["reward"].value for x in (estimator, other)]
    error = float(np.hypot(*(x.std_error for x in values)))
    apart = abs(values[0].value - values[1].value)
    text = (
        f"{estimator.upper()} gives {values[0].value:.4g} and {other.upper()} "
        f"{values[1].value:.4g}, with pooled standard errors of {error:.2g}"
    )
    # Also false for NaN.
    agree = np.isfinite(error) and apart <= rules.agreement * error + 1e-9
    return _trust("two estimators", agree, f"{text}.")


def _value(result: OfflineEvaluation, rules: DeployRules, estimator: str) -> Ruling:
    """Return whether the policy is worth more than the log."""
    estimate, base = (
        result.estimates[estimator]["reward"],
        result.logged["reward"].value,
    )
    text, needed = _value_text(estimate, base), "At least the log's value"
    if estimate.ratio is not None and estimate.ratio.value > 0 and base > 0:
        bounds, limit = estimate.ratio, 1 + rules.uplift
        if rules.uplift:
            needed = f"{limit:.3g} times the log's value"
    else:
        bounds = estimate.difference
        if limit := rules.uplift * abs(base):
            needed = f"{limit:.3g} more than the log's value"
    low, high = bounds.least, bounds.most
    state: RulingState = "unknown"
    if not np.isfinite([low, high]).all():
        text = "The value could not be estimated."
    elif _is_own(result):
        text += " This log is the policy's own: nothing is to be decided."
    elif not estimate.difference.std_error > _SAME * max(1.0, abs(base)):
        text += " It is that of the log: rewards are equal, or both act alike."
    elif low >= limit:
        state = "passed"
        if bounds.low < limit:  # the interval is two-sided, and the rule one-sided
            text += f" It is at least {low:.3f} with 95 % confidence."
    elif high < limit:
        state, text = "failed", f"{text} {needed} is needed."
    else:
        more = _more(result.diagnostics.episodes, bounds, limit)
        text += f" {needed} is needed; {more}."
    return Ruling("value", state, text)


def _more(episodes: int, bounds: EstimateInterval, limit: float) -> str:
    """Return how many episodes would tell, if estimates stay as they are.

    Intervals are narrower by the square root of the number of episodes.
    """
    bound = bounds.least if bounds.value >= limit else bounds.most
    apart = abs(bounds.value - limit)
    times = ((bounds.value - bound) / apart) ** 2 if apart else np.inf
    if not times <= _MOST_TIMES:
        return "both are so alike that hardly any log would tell"
    number = float(f"{episodes * times:.1g}")
    return f"about {number:,.0f} episodes for evaluation would tell"


def _is_own(result: OfflineEvaluation) -> bool:
    """Return whether the policy acts as the log does: all weights are 1."""
    diagnostics = result.diagnostics
    alike = diagnostics.effective_least > (1 - _ALIKE) * diagnostics.episodes
    return alike and abs(diagnostics.mean_weight - 1) < _ALIKE


def _value_text(estimate: Estimate, base: float) -> str:
    bounds = estimate.difference if estimate.ratio is None else estimate.ratio
    text = f"{bounds.value:.3f} times the log's {base:.3g}"
    if estimate.ratio is None:
        text = f"{bounds.value:+.3g} beside the log's {base:.3g}"
    return (
        f"An episode of the policy is worth {estimate.value.value:.4g}, {text} (95 % "
        f"interval {bounds.low:.3f} to {bounds.high:.3f})."
    )


def _actions(result: OfflineEvaluation, rules: DeployRules) -> Iterator[Ruling]:
    diagnostics, most = result.diagnostics, rules.most_variation
    if most < 1:
        yield Ruling(
            "change of actions",
            "failed" if diagnostics.variation > most else "passed",
            "The shares of actions differ from the log's by "
            f"{diagnostics.variation:.1%}; at most {most:.1%} is allowed.",
        )
    for name, most in rules.most_actions.items():
        share = diagnostics.served[name]
        yield Ruling(
            f"share of {name}",
            "failed" if share > most else "passed",
            f"The policy takes {name} in {share:.1%} of the logged states; at most "
            f"{most:.1%} is allowed.",
        )


def _guards(
    result: OfflineEvaluation, rules: DeployRules, estimator: str
) -> Iterator[Ruling]:
    for name, (low, high) in rules.guards.items():
        value = result.estimates[estimator][name].value
        least = -np.inf if low is None else low
        most = np.inf if high is None else high
        apart = value.low > most or value.high < least
        state: RulingState = "failed" if apart else "unknown"
        if least <= value.low and value.high <= most:
            state = "passed"
        yield Ruling(
            f"guard {name}",
            state,
            f"An episode has {value.value:.4g} of {name} (95 % interval "
            f"{value.low:.4g} to {value.high:.4g}); from {least:g} to {most:g} is "
            "allowed.",
        )


def _trust(rule: str, fits: bool, text: str) -> Ruling:
    return Ruling(rule, "passed" if fits else "unknown", text)
