"""A user's Keras model or builder, checked and adapted to an actor-critic."""

from __future__ import annotations

import dataclasses
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import keras

from tfagents_batch import nest
from tfagents_batch.errors import UserError, first_line
from tfagents_batch.nn.encoder import feature_space
from tfagents_batch.nn.fresh import fresh_copy
from tfagents_batch.nn.networks import (
    ActorCritic,
    Config,
    Towers,
    dummy_steps,
    head_options,
    layers,
)
from tfagents_batch.nn.user_recurrent import Recurrent, is_recurrent
from tfagents_batch.ops.distributions import families
from tfagents_batch.types import EnvSpec

Builder = Callable[[Any, Any], keras.Model]  # (observation_space, action_space)
EXPECTED = "expected features [N, F], or a dict of 'policy' [N, {size}] and 'value' [N]"
# Fields of ``Config`` that ``ActorCritic`` uses.
_POLICY_FIELDS = ("init_std", "min_std", "max_std", "std", "squash")
BUILDER = "a function of (observation_space, action_space) that returns a keras.Model"


def actor_critic(
    network: keras.Model | Builder, spec: EnvSpec, config: Config
) -> ActorCritic | Recurrent:
    """Adapt a user's model to ``interfaces.Network``.

    A builder's model is used directly, including trained weights. A model that is
    passed itself is copied with new weights from the current seed: it does not change,
    and one model in two runs gives two agents. Sequential and functional models can be
    copied, and so can subclasses with ``get_config`` or a constructor without
    arguments.

    Args:
      network: a ``keras.Model``, or a builder ``f(observation_space, action_space)``
        that returns one. The model maps a batched observation ``[N, ...]`` (nested
        like the space, without ``action_mask``) to features ``[N, F]``, to which linear
        heads are added, or to ``{"policy": [N, A], "value": [N]}``. It may also be a
        recurrent network, see ``user_recurrent``; a builder may also return an
        ``ActorCritic``. It runs with ``training=False``. Losses that its layers add
        (regularizers, ``add_loss``) are minimized too; these layers see all rows of a
        minibatch, including masked rows.
      spec: spec of the environments.
      config: settings for ``ActorCritic`` and for the linear heads (initializer, scale
        and ``mean``). A warning names other settings that are set but not used.

    Raises:
      UserError: names the builder, the layer or the shape at fault.
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
    _check_layers(model)
    if isinstance(model, ActorCritic):
        _check_actor_critic(model, spec)
        _warn_of_unused(config, model, ())
        return model
    if is_recurrent(model):
        network = Recurrent(model, spec)
        _warn_of_unused(config, model, ())
        _check_layers(model)  # again: the first call may create layers
        return network
    family = families.for_space(spec.action_space)
    size = family.size
    outputs = _outputs(model, spec)
    _check_layers(model)  # again: `build` may create layers
    if isinstance(outputs, dict):
        _check_heads(outputs, size, model)
        _warn_of_unused(config, model, _POLICY_FIELDS)
        body = model
    else:
        shape = getattr(outputs, "shape", None)
        if shape is None or len(shape) != 2 or shape[1] is None:
            raise UserError(
                f"model {model.name!r} returns {_describe(outputs)}; "
                + EXPECTED.format(size=size)
            )
        heads = head_options(config, family)
        _warn_of_unused(config, model, (*_POLICY_FIELDS, *heads))
        body = Towers(model, (), "linear", size, **heads)
    return ActorCritic(body, spec, config)


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


def _outputs(model: keras.Model, spec: EnvSpec):
    """Build the model; return its symbolic outputs for a batch of unknown size."""
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
            f"{first_line(error)}"
        ) from error


def _check_layers(model: keras.Model) -> None:
    for layer in layers(model):
        if isinstance(layer, (keras.layers.Dropout, keras.layers.BatchNormalization)):
            raise UserError(
                f"layer {layer.name!r} of model {model.name!r} is a "
                f"{type(layer).__name__}, which acts differently in training and "
                "breaks the ratio of old and new policy; remove it (LayerNormalization "
                "is fine)"
            )


def _check_actor_critic(model: ActorCritic, spec: EnvSpec) -> None:
    """Check that a model fits the action space and the observation space."""
    got = model.family
    wanted = families.for_space(spec.action_space, got.squashed)
    if (got.name, got.size, got.shape) != (wanted.name, wanted.size, wanted.shape):
        raise UserError(
            f"model {model.name!r} has policies {got.name} of size {got.size} for "
            f"actions of shape {got.shape}; this action space needs {wanted.name} of "
            f"size {wanted.size} for {wanted.shape}"
        )
    steps = dummy_steps(spec)
    try:
        model.unroll(steps, model.initial_state(steps.first.shape[1]))
    except Exception as error:
        raise UserError(
            f"model {model.name!r} does not take observations of "
            f"{spec.observation_space}: {first_line(error)}"
        ) from error


def _warn_of_unused(config: Config, model: keras.Model, used: tuple) -> None:
    """Warn of settings that have no effect on a user's model.

    They are not an error, because a preset may contain them.
    """
    defaults = Config()
    unused = [
        f"network.{field.name}={getattr(config, field.name)}"
        for field in dataclasses.fields(Config)
        if field.name not in used
        and getattr(config, field.name) != getattr(defaults, field.name)
    ]
    if unused:
        warnings.warn(
            f"{', '.join(unused)}: not used, as model {model.name!r} is passed as the "
            "network",
            stacklevel=2,
        )


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
