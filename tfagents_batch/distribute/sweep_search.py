"""Plan of a sweep, and its search space: ``--search=<flag>=<values>``.

8,16,32              one of these values
64,64|128,128        the same, for values that contain commas
uniform:0.9:0.999    any number of a range; with :<step>, numbers that far apart
log:1e-5:1e-2        the same on a logarithmic scale
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from tfagents_batch.errors import UserError
from tfagents_batch.settings import fields

_NUMBERS = {"int": int, "float": float, "schedule": float}
RANGES = "uniform:", "log:"  # beginnings of ranges, which are of numbers
_RANGE = "uniform:<low>:<high>, uniform:<low>:<high>:<step> or log:<low>:<high>"


@dataclasses.dataclass(frozen=True)
class SearchPlan:
    """Plan of a sweep, which does not change when the sweep is resumed."""

    fixed: Mapping[str, str]  # flags of every training, as text by name
    search: Mapping[str, str]  # values of the searched flags, as on the command line
    # The same as distributions of Optuna, see ``parse``
    space: Mapping[str, Any]
    # Name of the metric in ``metrics.jsonl`` that counts
    metric: str = "eval/return_mean"
    goal: Literal["max", "min"] = "max"  # whether larger or smaller values are better
    value: Literal["last", "best"] = "last"  # the last value of a training, or its best

    def flags(self, values: Mapping[str, Any]) -> list[str]:
        """Return the flags of a training with these values of the searched flags."""
        flags = {**self.fixed, **values}
        names = sorted(flags, key=lambda name: name != "config")  # it comes first
        return [f"--{name}={flags[name]}" for name in names]

    def value_of(self, series: Sequence[float]) -> float:
        """Return the value of one training from its values of the metric."""
        if self.value == "last":
            return series[-1]
        return max(series) if self.goal == "max" else min(series)

    def by_flag(self) -> dict[str, str]:
        """Return the plan by the flags that set it."""
        flags = {f"--{name}": text for name, text in self.fixed.items()}
        flags |= {f"--search={name}": text for name, text in self.search.items()}
        own = "metric", "goal", "value"
        return flags | {f"--{name}": getattr(self, name) for name in own}

    def require_same(self, stored: Mapping[str, str], folder: Any) -> None:
        """Refuse a folder whose sweep has another plan; name the first difference."""
        own = self.by_flag()
        for name in [*own, *stored]:
            if own.get(name) != stored.get(name):
                has, wanted = (flags.get(name, "none") for flags in (stored, own))
                raise UserError(
                    f"{folder} holds another sweep: its {name} is {has}, not {wanted}; "
                    "pass the same flags to go on with it, or another --logdir"
                )


def take(argv: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Take the flags ``--search`` out of a command line, where each may be repeated.

    Returns:
      Values by the names of the searched flags, and the other arguments.
    """
    searched: dict[str, str] = {}
    rest, arguments = [], list(argv)
    while arguments:
        argument = arguments.pop(0)
        if argument == "--search" and arguments:
            argument += "=" + arguments.pop(0)
        if argument.partition("=")[0] != "--search":
            rest.append(argument)
            continue
        text = argument.partition("=")[2]
        name, _, values = text.removeprefix("--").partition("=")
        if not (name and values):
            raise UserError(
                f"--search is {text!r}; expected a flag and its values, such as "
                "--search=algorithm.learning_rate=log:1e-5:1e-2 or "
                "--search=num_envs=8,16,32"
            )
        if name in searched:
            raise UserError(f"--search={name} is given twice; pass it once")
        searched[name] = values
    return searched, rest


def parse(name: str, text: str, kind: fields.Kind, bounds: Mapping[str, Any]) -> Any:
    """Return the values of a searched flag as a distribution of Optuna.

    The flag has a kind and bounds, see ``config.option``. Values that it does not
    accept, and an empty range, are refused with a UserError.
    """

    def refused(detail: str) -> UserError:
        return UserError(f"--search={name}={text}: {detail}")

    read = _range if text.startswith(RANGES) else _choices
    values, distribution = read(kind, text, refused)
    for value in values:
        if complaint := fields.out_of_bounds(value, bounds):
            raise refused(f"{fields.to_text(value)} is out of bounds; {complaint}")
    return distribution


def _range(
    kind: fields.Kind, text: str, refused: Callable[[str], UserError]
) -> tuple[list[Any], Any]:
    """Return both ends, and the numbers between them."""
    from optuna import distributions

    scale, *texts = text.split(":")
    log = scale == "log"
    read = _NUMBERS.get(kind.type)
    if read is None:
        raise refused(
            f"the flag is no number but {kind.expected}; list its values instead"
        )
    if len(texts) not in ((2,) if log else (2, 3)):
        raise refused(f"expected {_RANGE}")
    number = fields.kind(read)
    try:
        low, high, *step = map(number.read, texts)
    except ValueError as error:
        raise refused(f"{number.complaint(error)}, as in {_RANGE}") from None
    if not low < high:
        raise refused(f"{low} is not less than {high}; swap them")
    if log and low <= 0:
        raise refused(f"{low} has no logarithm; expected a low end above 0")
    if step and not 0 < step[0] <= high - low:
        raise refused(f"the step is {step[0]}; expected one between 0 and {high - low}")
    of = (distributions.FloatDistribution, distributions.IntDistribution)[read is int]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that steps do not end at ``high``
        return [low, high], of(low, high, log, *step)


def _choices(
    kind: fields.Kind, text: str, refused: Callable[[str], UserError]
) -> tuple[list[Any], Any]:
    """Return the values, and their texts as choices."""
    from optuna.distributions import CategoricalDistribution

    is_list = kind.type.endswith(",...")
    values = []
    for choice in text.split("|" if "|" in text or is_list else ","):
        try:
            values.append(kind.read(choice.strip()))
        except ValueError as error:
            hint = "" if "|" in text else "; values with commas are separated by |"
            raise refused(f"{choice!r}: {kind.complaint(error)}{hint}") from None
    plain = [*map(fields.to_text, values)]
    if len({*plain}) < len(plain):
        raise refused("a value is given twice; pass each once")
    if len(plain) < 2:
        hint = ", separated by |" if is_list else ""
        raise refused(f"it is one value; pass several{hint}, or pass it as a flag")
    return values, CategoricalDistribution(plain)
