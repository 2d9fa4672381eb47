"""Flags of the trainings of a sweep: those that are searched, and those that are not.

Which flags ``train`` has depends on its preset and its algorithm. If these are searched
too, a searched flag has to exist for each of them.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tfagents_batch import config, fields, suggest
from tfagents_batch.distribute.sweep import search
from tfagents_batch.distribute.sweep.plan import Plan
from tfagents_batch.distribute.sweep.search import Space
from tfagents_batch.errors import UserError

CHOOSE = "config", "algorithm"  # flags that decide which other flags there are
# Flags of ``train`` that a sweep passes on without checking them.
PASSED = "config", "data", "init_from", "init_checkpoint"
_OWN = {  # flags of ``train`` that a sweep sets
    "seed": "pass --seeds_per_trial for a mean over several seeds",
    "progress": "the output of each trial is in its folder",
}
_POINTS = 10  # of the search space that are checked before the first trial


@dataclasses.dataclass(frozen=True)
class Variant:
    """A preset and an algorithm, with the flags that ``train`` has for them.

    Attributes:
      names: texts of the flags in ``CHOOSE``; None for one that is not given.
      base: config with the defaults of the flags.
    """

    names: Mapping[str, str | None]
    base: Any

    @property
    def parts(self) -> tuple[tuple[Any, str], ...]:
        """Configs and prefixes of the flags, see ``config.parse``."""
        base = self.base
        named = (base.source, base.source.name), (base.settings, "algorithm")
        return (base, ""), *named

    def settings(self) -> dict[str, tuple[Any, str]]:
        """Return the config of every flag, and the flag's name in it."""
        return {
            f"{prefix}.{name}" if prefix else name: (part, name)
            for part, prefix in self.parts
            for name in config.names_of(part)
        }


def variants(
    given: Sequence[str], texts: Mapping[str, str], defaults: Callable
) -> list[Variant]:
    """Return the presets and algorithms that a sweep trains with.

    Args:
      given: command line without the searched flags.
      texts: values of the searched flags, see ``search.take``.
      defaults: function of algorithm, preset and data, see ``scripts.train``.
    """
    choices = [
        [text.strip() for text in texts[name].split(",")]
        if name in texts
        else [config.peek(given, name)]
        for name in CHOOSE
    ]
    data = config.peek(given, "data")
    return [
        Variant({"config": preset, "algorithm": name}, defaults(name, preset, data))
        for preset, name in itertools.product(*choices)
    ]


def space(
    texts: Mapping[str, str], found: Sequence[Variant], given: Sequence[str]
) -> Space:
    """Return the search space, each value checked by its flag.

    Args:
      texts: values of the searched flags.
      found: the presets and algorithms.
      given: command line without the searched flags.

    Raises:
      UserError: for an unknown flag, a value that it does not accept, or a flag that
        is also given.
    """
    result: dict[str, Any] = {}
    for name, text in texts.items():
        if name in _OWN:
            raise UserError(f"--{name} cannot be searched; {_OWN[name]}")
        if config.peek(given, name) is not None:
            raise UserError(
                f"--{name} is given and searched; leave out --{name} or --search={name}"
            )
        if name == "config":  # of ``train``, but no setting of a run
            result[name] = search.parse(name, text, fields.kind(str), {})
            continue
        for variant in found:
            known = variant.settings()
            if name not in known:
                hint = suggest.setting(name, {each: f"--{each}" for each in known})
                of = " ".join(filter(None, variant.names.values()))
                raise UserError(
                    f"--search={name}: there is no flag --{name}"
                    + (f" with {of}" if of else "")
                    + f"; {hint or 'tfagents-batch train --help lists all flags'}"
                )
            kind, bounds = config.setting(*known[name])
            result[name] = search.parse(name, text, kind, bounds)
    return result


def fixed(
    passed: Mapping[str, str | None],
    variant: Variant,
    parsed: Iterable[Mapping[str, Any]],
) -> dict[str, str]:
    """Return the flags that every training gets, as text by name.

    Args:
      passed: values of the flags in ``PASSED``; None for one that is not given.
      variant: any preset and algorithm of the sweep.
      parsed: the given settings of each of its parts, see ``config.parse``.
    """
    settings = {
        f"{prefix}.{name}" if prefix else name: value
        for (_, prefix), each in zip(variant.parts, parsed, strict=True)
        for name, value in each.items()
        if name not in _OWN
    }
    given = {name: value for name, value in passed.items() if value is not None}
    return {name: fields.to_text(value) for name, value in (given | settings).items()}


def check(plan: Plan, found: Sequence[Variant], resolve: Callable) -> None:
    """Refuse a plan of which nothing can be trained or compared.

    Args:
      plan: plan of the sweep.
      found: the presets and algorithms.
      resolve: ``api.resolve``.

    Raises:
      UserError: if there is no evaluation, or ``train`` would refuse all of several
        random points of the search space.
    """
    names = {*plan.fixed, *plan.search}
    played = "env" in names or all(each.base.env for each in found)
    off = not played or plan.fixed.get("eval_every") == "0"
    if off and plan.metric.startswith("eval/"):
        raise UserError(
            f"--metric is {plan.metric}, but there are no evaluations in an "
            "environment; pass --env and no --eval_every=0, or another metric, such as "
            "--metric=actions/gain --goal=max"
        )
    if "data" in names:  # its rows would have to be read
        return
    refusals = [_refusal(plan, values, found, resolve) for values in _points(plan)]
    if all(refusals):
        raise UserError(f"no point of the search space can be trained: {refusals[0]}")


def _points(plan: Plan) -> list[dict[str, Any]]:
    """Return random points of the search space."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    return [study.ask(plan.distributions()).params for _ in range(_POINTS)]


def _refusal(
    plan: Plan, values: Mapping[str, Any], found: Sequence[Variant], resolve: Callable
) -> UserError | None:
    """Return why ``train`` would refuse these values; None if it would not."""
    given = {name: str(value) for name, value in {**plan.fixed, **values}.items()}
    variant = next(
        each
        for each in found
        if all(given.get(name) == value for name, value in each.names.items())
    )
    texts = [f"--{name}={x}" for name, x in given.items() if name not in PASSED]
    try:
        options, of_source, settings = config.parse(texts, variant.parts)
        if of_source:
            options[variant.base.source.name] = of_source
        names = variant.names["algorithm"], None, variant.names["config"]
        recipe = resolve(*names, settings or None, options).check().recipe()
        if not recipe.in_graph and recipe.has_workers:  # both look up the name
            recipe.constructor()
    except UserError as error:
        return error
    return None
