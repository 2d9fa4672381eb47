"""Models with new weights: copies of a model, and models of a builder."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import keras

from tfagents_batch.errors import UserError, headline


def fresh_copy(model: keras.Model) -> keras.Model:
    """Copy a model's architecture with new initial weights; ``model`` is unchanged.

    Raises:
      UserError: if the model does not describe its architecture.
    """
    try:
        copy = _copy(model)
    except Exception as error:
        raise _refusal(model, headline(error)) from error
    if _shared(model, copy):
        raise _refusal(model, "its copy shares weights with it")
    return copy


def distinct(network: Any) -> Any:
    """Return a builder that refuses models which share weights; others as they are.

    An algorithm builds several networks, such as target networks and policies that act
    beside an update. If they had the same weights, they could not differ.
    """
    if isinstance(network, keras.Model) or not callable(network):
        return network
    name = getattr(network, "__qualname__", type(network).__qualname__)
    models: list[keras.Model] = []

    @functools.wraps(network)
    def build(*spaces):
        model = network(*spaces)
        for earlier in models:
            if shared := _shared(earlier, model):
                raise UserError(
                    f"network builder {name!r} returned a model that shares "
                    f"{shared[0]} with the model of an earlier call; expected new "
                    "weights, because target networks and policies have their own; "
                    "create all layers inside the function, so that each call returns "
                    "a new model"
                )
        models.append(model)
        return model

    build.__qualname__ = name
    return build


def _shared(one: Any, other: Any) -> list[str]:
    """Return the names of the weights that two models share."""
    known = {id(weight) for weight in getattr(one, "variables", ())}
    weights = getattr(other, "variables", ())
    return [weight.path for weight in weights if id(weight) in known]


def _copy(model: keras.Model) -> keras.Model:
    for part in model._flatten_layers(include_self=True, recursive=True):
        # For a subclass without get_config Keras generates a config that lacks the
        # arguments of the constructor.
        if isinstance(part, keras.Model) and not _has_config(part):
            if part is model and not inspect.signature(type(model)).parameters:
                return type(model)()
            raise TypeError(f"class {type(part).__name__} has no get_config")
    if from_keras(type(model)):
        return keras.models.clone_model(model)
    return type(model).from_config(model.get_config())


def _has_config(model: keras.Model) -> bool:
    return from_keras(type(model)) or not from_keras(type(model).get_config)


def from_keras(thing: Any) -> bool:
    """Return whether Keras defines a class or a function."""
    return thing.__module__.partition(".")[0] == "keras"


def _refusal(model: keras.Model, why: str) -> UserError:
    return UserError(
        f"model {model.name!r} cannot be copied, but every run needs its own ({why}); "
        "pass a function of (observation_space, action_space) that returns it"
    )
