"""Number of weights of a network, layer by layer."""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple

import gymnasium

from tfagents_batch import encoding, spaces

MANY = 10_000_000  # weights
# Numbers of a usual large observation, four gray frames of an Atari game. A network of
# more than MANY weights on fewer numbers is one that the user chose.
LARGE = 84 * 84 * 4


class Layer(NamedTuple):
    """Path of a layer, shapes of its trainable variables and their size."""

    name: str
    shapes: dict[str, list[int]]
    # ``run.json`` has this name.
    count: int  # pyright: ignore[reportIncompatibleMethodOverride]


def by_layer(algorithm: Any) -> list[Layer]:
    """Return the layers of ``algorithm.network`` that have weights, in order."""
    by_name: dict[str, dict[str, list[int]]] = {}
    network = getattr(algorithm, "network", None)
    for variable in getattr(network, "trainable_variables", ()):
        layer, _, name = variable.path.rpartition("/")
        shapes = by_name.setdefault(layer, {})
        while name in shapes:  # several variables with the same name
            name += "'"
        shapes[name] = list(variable.shape)
    return [
        Layer(layer, shapes, sum(map(math.prod, shapes.values())))
        for layer, shapes in by_name.items()
    ]


def facts(layers: list[Layer]) -> dict[str, Any]:
    """Return the facts about the weights for ``run.json``."""
    total = sum(layer.count for layer in layers)
    return {"total": total, "layers": [layer._asdict() for layer in layers]}


def table(layers: list[Layer]) -> str:
    """Return a text table with a line for each layer and one for the sum."""
    rows = [("weights of", "shapes", "number")]
    for name, shapes, count in layers:
        sizes = ("x".join(map(str, shape)) or "1" for shape in shapes.values())
        rows.append((name, ", ".join(sizes), f"{count:,}"))
    rows.append(("all layers", "", f"{sum(layer.count for layer in layers):,}"))
    first, second, third = (max(map(len, column)) for column in zip(*rows, strict=True))
    return "\n".join(f"{a:{first}}  {b:{second}}  {c:>{third}}" for a, b, c in rows)


def warning(layers: list[Layer], space: gymnasium.Space) -> str:
    """Return a warning about a built-in network that an observation makes large.

    It is a line with the number of weights, the largest part of the observation and how
    to make it smaller; "" if the network has at most MANY weights, or the part at most
    LARGE numbers.
    """
    total = sum(layer.count for layer in layers)
    leaf = max(spaces.leaves(space), key=lambda x: math.prod(x.shape), default=None)
    if total <= MANY or leaf is None or math.prod(leaf.shape) <= LARGE:
        return ""
    largest = max(layers, key=lambda x: x.count)
    return (
        f"warning: the network has {total:,} weights, {largest.count:,} of them in "
        f"{largest.name}, because {spaces.field(leaf.path)} has shape "
        f"{list(leaf.shape)}; {_smaller(leaf)}, or pass your own network (network=)"
    )


def _smaller(leaf: spaces.Leaf) -> str:
    """Return how to make a part of an observation smaller."""
    rank = len(leaf.shape)
    if rank == 1:
        return "make it smaller in a wrapper, such as SelectEntries"
    if not encoding.is_image(leaf.space) or rank > 3:
        return "make it smaller in a wrapper"
    wrappers: list[Any] = [{"name": "ResizeObservation", "shape": [84, 84]}]
    if rank == 3 and leaf.shape[-1] == 3:
        wrappers.insert(0, "GrayscaleObservation")
    if leaf.path:
        wrappers.insert(0, {"name": "SelectKey", "key": leaf.path[0]})
    return f"make it smaller by wrappers={json.dumps(wrappers)}"
