"""Number of weights of a network, layer by layer."""

from __future__ import annotations

import math
from typing import Any, NamedTuple


class Layer(NamedTuple):
    """Path of a layer, shapes of its trainable variables and their size."""

    name: str
    shapes: dict[str, list[int]]
    count: int


def by_layer(algorithm: Any) -> list[Layer]:
    """Return the layers of ``algorithm.network`` that have weights, in order."""
    found: dict[str, dict[str, list[int]]] = {}
    network = getattr(algorithm, "network", None)
    for variable in getattr(network, "trainable_variables", ()):
        layer, _, name = variable.path.rpartition("/")
        shapes = found.setdefault(layer, {})
        while name in shapes:  # several variables with the same name
            name += "'"
        shapes[name] = list(variable.shape)
    return [
        Layer(layer, shapes, sum(map(math.prod, shapes.values())))
        for layer, shapes in found.items()
    ]


def facts(layers: list[Layer]) -> dict[str, Any]:
    """Return the facts about the weights for ``run.json``."""
    total = sum(each.count for each in layers)
    return {"total": total, "layers": [each._asdict() for each in layers]}


def table(layers: list[Layer]) -> str:
    """Return a text table with a line for each layer and one for the sum."""
    rows = [("weights of", "shapes", "number")]
    for name, shapes, count in layers:
        sizes = ("x".join(map(str, shape)) or "1" for shape in shapes.values())
        rows.append((name, ", ".join(sizes), f"{count:,}"))
    rows.append(("all layers", "", f"{sum(each.count for each in layers):,}"))
    first, second, third = (max(map(len, column)) for column in zip(*rows, strict=True))
    return "\n".join(f"{a:{first}}  {b:{second}}  {c:>{third}}" for a, b, c in rows)
