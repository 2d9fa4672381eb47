"""Search space of a sweep: ``--search=<flag>=<values>``.

8,16,32              one of these values
64,64|128,128        the same, for values that contain commas
uniform:0.9:0.999    any number of a range; with :<step>, numbers that far apart
log:1e-5:1e-2        the same on a logarithmic scale
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tfagents_batch import fields
from tfagents_batch.errors import UserError

_NUMBERS = {"int": int, "float": float, "schedule": float}
_SCALES = "uniform", "log"
_RANGE = "uniform:<low>:<high>, uniform:<low>:<high>:<step> or log:<low>:<high>"


class Choices(NamedTuple):
    """Values of a flag, as on the command line."""

    values: tuple[str, ...]

    def __str__(self) -> str:
        return ("|" if any("," in x for x in self.values) else ",").join(self.values)

    def distribution(self) -> Any:
        """Return the values as Optuna describes them."""
        from optuna.distributions import CategoricalDistribution

        return CategoricalDistribution(self.values)


class Range(NamedTuple):
    """Numbers of a flag from ``low`` to ``high``; ``log``: on a logarithmic scale."""

    low: float
    high: float
    log: bool = False
    step: float | None = None

    def __str__(self) -> str:
        numbers = [self.low, self.high, *([] if self.step is None else [self.step])]
        return ":".join([_SCALES[self.log], *map(str, numbers)])

    def distribution(self) -> Any:
        """Return the numbers as Optuna describes them."""
        from optuna import distributions

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that steps do not end at ``high``
            if isinstance(self.low, int):
                numbers = self.low, self.high, self.log, self.step or 1
                return distributions.IntDistribution(*numbers)
            return distributions.FloatDistribution(*self)


Space = Mapping[str, Choices | Range]


def take(argv: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Take the flags ``--search`` out of a command line, where each may be repeated.

    Returns:
      Values by the names of the searched flags, and the other arguments.

    Raises:
      UserError: for one without a name or values, and for a name that is given twice.
    """
    found: dict[str, str] = {}
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
        if name in found:
            raise UserError(f"--search={name} is given twice; pass it once")
        found[name] = values
    return found, rest


def parse(
    name: str, text: str, kind: fields.Kind, bounds: Mapping[str, Any]
) -> Choices | Range:
    """Return the values of a searched flag.

    Args:
      name: name of the flag.
      text: values as on the command line.
      kind: kind of the flag's values.
      bounds: bounds of its values, see ``config.option``.

    Raises:
      UserError: for values that the flag does not accept, and for an empty range.
    """

    def refused(detail: str) -> UserError:
        return UserError(f"--search={name}={text}: {detail}")

    scale, *numbers = text.split(":")
    if scale in _SCALES:
        found: Any = _range(kind, scale, numbers, refused)
        values: Sequence[Any] = found[:2]
    else:
        values, found = _choices(kind, text, refused)
    for value in values:
        if complaint := fields.out_of_bounds(value, bounds):
            raise refused(f"{fields.to_text(value)} is out of bounds; {complaint}")
    return found


def _range(kind: fields.Kind, scale: str, texts: list[str], refused: Callable) -> Range:
    read = _NUMBERS.get(kind.type)
    if read is None:
        raise refused(
            f"the flag is no number but {kind.expected}; list its values instead"
        )
    if len(texts) not in ((2,) if scale == "log" else (2, 3)):
        raise refused(f"expected {_RANGE}")
    number = fields.kind(read)
    try:
        low, high, *step = map(number.read, texts)
    except ValueError as error:
        raise refused(f"{number.complaint(error)}, as in {_RANGE}") from None
    if not low < high:
        raise refused(f"{low} is not less than {high}; swap them")
    if scale == "log" and low <= 0:
        raise refused(f"{low} has no logarithm; expected a low end above 0")
    if step and not 0 < step[0] <= high - low:
        raise refused(f"the step is {step[0]}; expected one between 0 and {high - low}")
    return Range(low, high, scale == "log", *step)


def _choices(
    kind: fields.Kind, text: str, refused: Callable
) -> tuple[list[Any], Choices]:
    is_list = kind.type.endswith(",...")
    texts = text.split("|" if "|" in text or is_list else ",")
    values = []
    for each in texts:
        try:
            values.append(kind.read(each.strip()))
        except ValueError as error:
            hint = "" if "|" in text else "; values with commas are separated by |"
            raise refused(f"{each!r}: {kind.complaint(error)}{hint}") from None
    plain = tuple(map(fields.to_text, values))
    if len({*plain}) < len(plain):
        raise refused("a value is given twice; pass each once")
    if len(plain) < 2:
        hint = ", separated by |" if is_list else ""
        raise refused(f"it is one value; pass several{hint}, or pass it as a flag")
    return values, Choices(plain)
