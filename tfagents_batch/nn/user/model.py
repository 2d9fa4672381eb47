"""A user's Keras model or builder for any kind of network, with its checks."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.errors import UserError, first_line
from tfagents_batch.nn.encoder import feature_space
from tfagents_batch.nn.networks import layers
from tfagents_batch.nn.user.fresh import fresh_copy, from_keras
from tfagents_batch.nn.user.recurrent import is_recurrent
from tfagents_batch.types import EnvSpec

# They change their own variables in training.
_REFUSED = (
    keras.layers.BatchNormalization,
    keras.layers.SpectralNormalization,
)
# Own layers are tried with so many observations, so often; results differ by rounding.
_SAMPLES, _TRIALS, _ROUNDING = 8, 4, 1e-3
Builder = Callable[[Any, Any], keras.Model]  # (observation_space, action_space)
BUILDER = "a function of (observation_space, action_space) that returns a keras.Model"


def create(network: keras.Model | Builder, spec: EnvSpec) -> keras.Model:
    """Return the model of a user: a copy of a model, or what a builder returns.

    Raises:
      UserError: names the builder or the layer at fault.
    """
    check_backend()
    if isinstance(network, keras.Model):
        model = fresh_copy(network)
    elif callable(network):
        model = _built(network, spec)
    else:
        raise UserError(
            f"network is {type(network).__name__}; expected a keras.Model or {BUILDER}"
        )
    check_layers(model)
    return model


def outputs(model: keras.Model, spec: EnvSpec, heads: Mapping[str, int | None]) -> Any:
    """Build a model; return its symbolic outputs for a batch of unknown size.

    It maps observations ``[N, ...]`` to features ``[N, F]``, or to a dict of all heads,
    which have widths n, ``[N, n]``, by name; None for ``[N]``.

    Raises:
      UserError: names what does not fit.
    """
    if is_recurrent(model):
        raise UserError(
            f"model {model.name!r} is recurrent, but networks of this algorithm have "
            "no memory of their own; expected a model of observations without a state: "
            "use ppo, a2c, ga3c or reinforce, or set network.core if there is one"
        )
    inputs = nest.map(
        lambda s: keras.KerasTensor((None, *s.shape), s.dtype.name),
        nest.specs(feature_space(spec.observation_space)),
    )
    try:
        result = model(inputs, training=False)
    except Exception as error:
        shapes = nest.map(lambda x: f"{x.dtype}{list(x.shape)}", inputs)
        raise UserError(
            f"model {model.name!r} does not take the observations {shapes}: "
            f"{first_line(error)}"
        ) from error
    check_layers(model)  # again: `build` may create layers
    if isinstance(result, dict):
        _check_heads(result, heads, model)
    else:
        shape, shown = getattr(result, "shape", None), type(result).__name__
        if shape is None or len(shape) != 2 or shape[1] is None:
            shown += "" if shape is None else f" of shape {tuple(shape)}"
            raise UserError(f"model {model.name!r} returns {shown}; {_expected(heads)}")
    _check_own_layers(model, spec)
    return result


def check_backend() -> None:
    """Check that Keras uses the TensorFlow backend.

    Raises:
      UserError: names the setting to change.
    """
    if keras.backend.backend() != "tensorflow":
        raise UserError(
            f"Keras runs on the {keras.backend.backend()!r} backend; set "
            "KERAS_BACKEND=tensorflow before Keras is imported"
        )


def check_layers(model: keras.Model) -> None:
    """Check that a model has no layer that acts differently in training.

    Nor may its weights have constraints, which our optimizers do not apply.

    Raises:
      UserError: names the first one.
    """
    for variable in model.trainable_variables:
        if (limit := getattr(variable, "constraint", None)) is not None:
            name = getattr(limit, "__name__", type(limit).__name__)
            raise UserError(
                f"weight {variable.path!r} of model {model.name!r} has the constraint "
                f"{name}, which is not applied in training; remove it, and use a "
                "regularizer or compute the constrained weight in `call`"
            )
    for layer in layers(model):
        if _acts_in_training(layer):
            raise UserError(
                f"layer {layer.name!r} of model {model.name!r} is a "
                f"{type(layer).__name__}, which acts differently in training, so the "
                "policy that acts would not be the one that learns; remove it "
                "(LayerNormalization is fine)"
            )


def _acts_in_training(layer: keras.layers.Layer) -> bool:
    """Return whether a layer draws random numbers, or changes itself, in training only.

    Layers that draw have a generator of seeds; those with a rate draw if it is not 0.
    """
    if isinstance(layer, _REFUSED):
        return True
    if "training" not in inspect.signature(layer.call).parameters:
        return False
    rates = [getattr(layer, x, None) for x in ("dropout", "recurrent_dropout")]
    rates = [x for x in rates if isinstance(x, (int, float))]
    parts = vars(layer).values()
    draws = any(isinstance(x, keras.random.SeedGenerator) for x in parts)
    return any(rates) or (draws and not rates)


def _check_own_layers(model: keras.Model, spec: EnvSpec) -> None:
    """Check that the user's own code returns the same in training, by trying it.

    Layers of Keras are known, see ``check_layers``, and are not tried.
    """
    if not any(map(_may_act, (model, *layers(model)))):
        return
    try:
        batch = _observations(spec)
        acts = [nest.flatten(model(batch, training=False)) for _ in range(2)]
        if not _alike(*acts):  # it always draws random numbers
            return
        learns = [
            nest.flatten(model(batch, training=training))
            for training in (*[True] * _TRIALS, False)
        ]
    except Exception:  # of any kind, from code that refuses random observations
        return
    if not all(_alike(acts[0], x) for x in learns):
        raise UserError(
            f"model {model.name!r} acts differently in training: for the same "
            "observations, it returns one thing with training=False and another with "
            "training=True, or after it. The model always runs with training=False; "
            "remove what only acts in training"
        )


def _may_act(layer: keras.layers.Layer) -> bool:
    """Return whether the user's own code in a layer is told if it is in training."""
    if from_keras(type(layer)) and not isinstance(layer, keras.layers.Lambda):
        return False
    names = inspect.signature(layer.call).parameters
    return "training" in names or any(x.kind is x.VAR_KEYWORD for x in names.values())


def _observations(spec: EnvSpec) -> Any:
    """Return a batch of random observations, without an action mask."""
    space = copy.deepcopy(feature_space(spec.observation_space))
    space.seed(0)
    samples = [space.sample() for _ in range(_SAMPLES)]
    return nest.map(
        lambda spec, *leaves: tf.constant(np.stack(leaves), spec.dtype),
        nest.specs(space),
        *samples,
    )


def _alike(some: list, others: list) -> bool:
    """Return whether tensors are equal but for rounding."""
    pairs = [
        (np.asarray(x, np.float64), np.asarray(y, np.float64))
        for x, y in zip(some, others, strict=True)
    ]
    return all(np.abs(x - y).max() <= _ROUNDING * np.abs(x).max() for x, y in pairs)


def warn_of_unused(config: Any, model: keras.Model, used: tuple) -> None:
    """Warn of settings that have no effect on a user's model; those ``used`` have one.

    They are not an error, because a preset may contain them.
    """
    defaults = type(config)()
    unused = [
        f"network.{field.name}={getattr(config, field.name)}"
        for field in dataclasses.fields(config)
        if field.name not in used
        and getattr(config, field.name) != getattr(defaults, field.name)
    ]
    if unused:
        warnings.warn(
            f"{', '.join(unused)}: not used, as model {model.name!r} is passed as the "
            "network",
            stacklevel=2,
        )


def _expected(heads: Mapping[str, int | None]) -> str:
    """Return what a model may return, as text."""
    if not heads:
        return "expected features [N, F]"
    shapes = (
        f"{name!r} [N]" if size is None else f"{name!r} [N, {size}]"
        for name, size in heads.items()
    )
    return f"expected features [N, F], or a dict of {' and '.join(shapes)}"


def _check_heads(
    result: dict, heads: Mapping[str, int | None], model: keras.Model
) -> None:
    if set(result) != set(heads):
        raise UserError(
            f"model {model.name!r} returns keys {sorted(result)}; {_expected(heads)}"
        )
    for name, size in heads.items():
        shape = tuple(result[name].shape)
        if size is None and shape not in {(None,), (None, 1)}:
            raise UserError(
                f"output {name!r} of model {model.name!r} has shape {shape}; expected "
                "(None,) or (None, 1)"
            )
        if size is not None and (len(shape) != 2 or shape[1] != size):
            raise UserError(
                f"output {name!r} of model {model.name!r} has shape {shape}; expected "
                f"(None, {size}) for this action space"
            )


def _built(builder: Builder, spec: EnvSpec) -> keras.Model:
    name = getattr(builder, "__qualname__", type(builder).__qualname__)
    spaces = feature_space(spec.observation_space), spec.action_space
    try:
        inspect.signature(builder).bind(*spaces)
    except TypeError as error:
        raise UserError(
            f"network builder {name!r} cannot be called with two arguments "
            f"({error}); expected {BUILDER}"
        ) from error
    except ValueError:
        pass  # it has no signature; the call below raises if the arguments are wrong
    try:
        model = builder(*spaces)
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"network builder {name!r} raised {first_line(error)}"
        ) from error
    if not isinstance(model, keras.Model):
        raise UserError(
            f"network builder {name!r} returned {type(model).__name__}; expected a "
            "keras.Model"
        )
    return model
