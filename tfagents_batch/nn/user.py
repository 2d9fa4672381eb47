"""A user's Keras model or builder, checked and adapted to an actor-critic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from tfagents_batch import nest
from tfagents_batch.errors import UserError
from tfagents_batch.nn.encoder import feature_space
from tfagents_batch.nn.networks import ActorCritic, Config, Towers, layers
from tfagents_batch.ops import distributions
from tfagents_batch.types import EnvSpec

Builder = Callable[[Any, Any], keras.Model]  # (observation_space, action_space)
EXPECTED = "expected features [N, F], or a dict of 'policy' [N, {size}] and 'value' [N]"


def actor_critic(network: keras.Model | Builder, spec: EnvSpec, config: Config):
    """Adapt a user's model to ``ActorCritic``.

    Args:
      network: a ``keras.Model``, or a builder ``f(observation_space, action_space)``
        that returns one. The model maps a batched observation ``[N, ...]`` (dict or
        tuple as the space is nested, without ``action_mask``) to features ``[N, F]``,
        to which linear heads are added, or to ``{"policy": [N, A], "value": [N]}``.
        It runs with ``training=False``.
      spec: of the environments.
      config: only ``init_std`` is used.

    Raises:
      UserError: naming the layer or the shape at fault.
    """
    check_backend()
    model = network
    if not isinstance(model, keras.Model):
        if not callable(network):
            raise UserError(
                f"network is {type(network).__name__}; expected a keras.Model or a "
                "function of (observation_space, action_space) that returns one"
            )
        model = network(feature_space(spec.observation_space), spec.action_space)
        if not isinstance(model, keras.Model):
            raise UserError(
                f"the network builder returned {type(model).__name__}; expected a "
                "keras.Model"
            )
    if isinstance(model, ActorCritic):
        return model
    for layer in layers(model):
        if isinstance(layer, (keras.layers.Dropout, keras.layers.BatchNormalization)):
            raise UserError(
                f"layer {layer.name!r} of model {model.name!r} is a "
                f"{type(layer).__name__}, which acts differently in training and "
                "breaks the ratio of old and new policy; remove it (LayerNormalization "
                "is fine)"
            )
    size = distributions.for_space(spec.action_space).size
    outputs = _outputs(model, spec)
    if isinstance(outputs, dict):
        _check_heads(outputs, size, model)
        body = _Heads(model)
    else:
        shape = getattr(outputs, "shape", None)
        if shape is None or len(shape) != 2 or shape[1] is None:
            raise UserError(
                f"model {model.name!r} returns {_describe(outputs)}; "
                + EXPECTED.format(size=size)
            )
        body = Towers(_Features(model), (), "linear", size)
    return ActorCritic(body, spec, config.init_std)


def check_backend() -> None:
    """Refuse another Keras backend than TensorFlow.

    Raises:
      UserError: with the setting to change.
    """
    if keras.backend.backend() != "tensorflow":
        raise UserError(
            f"Keras runs on the {keras.backend.backend()!r} backend; set "
            "KERAS_BACKEND=tensorflow before Keras is imported"
        )


class _Features(keras.Model):
    """A user's feature model as an encoder, never in training mode."""

    def __init__(self, model: keras.Model):
        super().__init__(name="user_features")
        self.model = model

    def call(self, observation):
        return self.model(observation, training=False)


class _Heads(keras.Model):
    """A user's model of both heads, its value squeezed to ``[N]``."""

    def __init__(self, model: keras.Model):
        super().__init__(name="user_heads")
        self.model = model

    def call(self, observation):
        outputs = self.model(observation, training=False)
        value = keras.ops.reshape(outputs["value"], (-1,))
        return {"policy": outputs["policy"], "value": value}


def _outputs(model: keras.Model, spec: EnvSpec):
    """Symbolic outputs for a batch of unknown size; builds the model on the way."""
    inputs = nest.map(
        lambda s: keras.KerasTensor((None, *s.shape), s.dtype.name),
        nest.specs(feature_space(spec.observation_space)),
    )
    try:
        return model(inputs, training=False)
    except Exception as error:
        shapes = nest.map(lambda x: f"{x.dtype}{list(x.shape)}", inputs)
        raise UserError(
            f"model {model.name!r} does not take the observations {shapes}: "
            f"{type(error).__name__}: {str(error).splitlines()[0]}"
        ) from error


def _check_heads(outputs: dict, size: int, model: keras.Model) -> None:
    if set(outputs) != {"policy", "value"}:
        raise UserError(
            f"model {model.name!r} returns keys {sorted(outputs)}; "
            + EXPECTED.format(size=size)
        )
    policy, value = tuple(outputs["policy"].shape), tuple(outputs["value"].shape)
    if len(policy) != 2 or policy[1] != size:
        raise UserError(
            f"output 'policy' of model {model.name!r} has shape {policy}; expected "
            f"(None, {size}) for this action space"
        )
    if value not in {(None,), (None, 1)}:
        raise UserError(
            f"output 'value' of model {model.name!r} has shape {value}; expected "
            "(None,) or (None, 1)"
        )


def _describe(outputs) -> str:
    shape = getattr(outputs, "shape", None)
    kind = type(outputs).__name__
    return f"{kind} of shape {tuple(shape)}" if shape is not None else kind
