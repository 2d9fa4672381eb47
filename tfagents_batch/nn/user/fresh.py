"""Copies of Keras models with new weights."""

from __future__ import annotations

import inspect

import keras

from tfagents_batch.errors import UserError


def fresh_copy(model: keras.Model) -> keras.Model:
    """Copy a model's architecture with new initial weights; ``model`` is unchanged.

    Raises:
      UserError: if the model does not describe its architecture.
    """
    try:
        copy = _copy(model)
    except Exception as error:
        raise _refusal(model, str(error).strip().partition("\n")[0]) from error
    if {id(w) for w in model.variables} & {id(w) for w in copy.variables}:
        raise _refusal(model, "its copy shares weights with it")
    return copy


def _copy(model: keras.Model) -> keras.Model:
    for part in model._flatten_layers(include_self=True, recursive=True):
        # For a subclass without get_config Keras generates a config that lacks the
        # arguments of the constructor.
        if isinstance(part, keras.Model) and not _has_config(part):
            if part is model and not inspect.signature(type(model)).parameters:
                return type(model)()
            raise TypeError(f"class {type(part).__name__} has no get_config")
    if _from_keras(type(model)):
        return keras.models.clone_model(model)
    return type(model).from_config(model.get_config())


def _has_config(model: keras.Model) -> bool:
    return _from_keras(type(model)) or not _from_keras(type(model).get_config)


def _from_keras(thing) -> bool:
    return thing.__module__.partition(".")[0] == "keras"


def _refusal(model: keras.Model, why: str) -> UserError:
    return UserError(
        f"model {model.name!r} cannot be copied, but every run needs its own ({why}); "
        "pass a function of (observation_space, action_space) that returns it"
    )
