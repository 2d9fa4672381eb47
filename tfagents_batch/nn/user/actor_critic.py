"""A user's Keras model or builder, checked and adapted to an actor-critic."""

from __future__ import annotations

import keras

from tfagents_batch.errors import UserError, first_line
from tfagents_batch.nn.layers.blocks import Towers
from tfagents_batch.nn.networks import (
    ActorCritic,
    NetworkConfig,
    dummy_steps,
    head_options,
)
from tfagents_batch.nn.user import model as user_model
from tfagents_batch.nn.user.recurrent import Recurrent, is_recurrent
from tfagents_batch.ops import distributions
from tfagents_batch.types import EnvSpec

# Fields of ``NetworkConfig`` that ``ActorCritic`` uses.
_POLICY_FIELDS = ("init_std", "min_std", "max_std", "std", "squash", "scale_actions")


def actor_critic(
    network: keras.Model | user_model.Builder,
    spec: EnvSpec,
    config: NetworkConfig,
    sde: bool = False,
) -> ActorCritic | Recurrent:
    """Adapt a user's model to ``interfaces.Network``.

    A builder's model is used directly, including trained weights; each call has to
    return a new one, see ``fresh.distinct``. A model that is passed itself is copied
    with new weights from the current seed: it does not change, and one model in two
    runs gives two agents. Sequential and functional models can be copied, and so can
    subclasses with ``get_config`` or a constructor without arguments.

    Args:
      network: a ``keras.Model``, or a builder ``f(observation_space, action_space)``
        that returns one. The model maps a batched observation ``[N, ...]`` (nested
        like the space, without ``action_mask``) to features ``[N, F]``, to which linear
        heads are added, or to ``{"policy": [N, A], "value": [N]}``. The policy of a Box
        is its mean, in units by the setting ``scale_actions``: by default -1 is the
        lower bound and 1 the upper one. It may also be a recurrent network, see
        ``user.recurrent``; a builder may also return an ``ActorCritic``. It runs with
        ``training=False``. Losses that its layers add (regularizers, ``add_loss``) are
        minimized too; these layers see all rows of a minibatch, including masked rows.
      spec: spec of the environments.
      config: settings for ``ActorCritic`` and for the linear heads (initializer, scale
        and ``mean``). A warning names other settings that are set but not used.
      sde: whether noise is a function of the state, which needs a model of features.

    Raises:
      UserError: names the builder, the layer or the shape at fault.
    """
    model = user_model.create(network, spec)
    if isinstance(model, ActorCritic):
        _check_features(model, sde)
        _check_actor_critic(model, spec)
        user_model.check_layers(model)  # again: the first call may create layers
        user_model.warn_of_unused(config, model, ())
        return model
    if is_recurrent(model):
        _check_features(model, sde)
        recurrent = Recurrent(model, spec)
        user_model.warn_of_unused(config, model, ())
        user_model.check_layers(model)  # again: the first call may create layers
        return recurrent
    family = distributions.for_space(spec.action_space)
    heads = {"policy": family.size, "value": None}
    if isinstance(user_model.outputs(model, spec, heads), dict):
        _check_features(model, sde)
        user_model.warn_of_unused(config, model, _POLICY_FIELDS)
        return ActorCritic(model, spec, config)
    options = head_options(config, family)
    user_model.warn_of_unused(config, model, (*_POLICY_FIELDS, *options))
    towers = Towers(model, (), "linear", family.size, features=sde, **options)
    return ActorCritic(towers, spec, config, sde)


def _check_features(model: keras.Model, sde: bool) -> None:
    if sde:
        raise UserError(
            f"exploration is sde, but model {model.name!r} returns the policy itself; "
            "such noise is a function of features: return features [N, F], to which "
            "heads are added, or leave --algorithm.exploration out"
        )


def _check_actor_critic(model: ActorCritic, spec: EnvSpec) -> None:
    """Check that a model fits the action space and the observation space."""
    got = model.family
    wanted = distributions.for_space(spec.action_space, got.squashed)
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
