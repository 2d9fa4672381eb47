"""Settings of runs as TensorBoard's plugin for hyperparameters reads them."""

import dataclasses

import pytest
from tensorboard import context
from tensorboard.backend.event_processing import data_provider
from tensorboard.backend.event_processing.plugin_event_multiplexer import (
    EventMultiplexer,
)
from tensorboard.plugins import base_plugin
from tensorboard.plugins.hparams import (
    api_pb2,
    backend_context,
    get_experiment,
    list_session_groups,
)

from tfagents_batch.algorithms import REGISTRY, ppo
from tfagents_batch.nn import networks
from tfagents_batch.training.config import RunConfig
from tfagents_batch.training.log.logger import Logger
from tfagents_batch.training.log.tensorboard import table
from tfagents_batch.training.run_folder import config_file

CONFIG = RunConfig(
    env="CartPole-v1",
    env_options={"worker_variables": {"TOKEN": "secret"}},
    eval_every=500,  # changes no learning curve
    settings=ppo.PPOConfig(epochs=3, network=networks.NetworkConfig(hidden=(32, 16))),
)
STATUSES = [
    api_pb2.STATUS_UNKNOWN,
    api_pb2.STATUS_SUCCESS,
    api_pb2.STATUS_FAILURE,
    api_pb2.STATUS_RUNNING,
]


def rows(logdir):
    """Return what the tab shows: columns that differ, and a session for each run."""
    multiplexer = EventMultiplexer()
    multiplexer.AddRunsFromDirectory(str(logdir))
    multiplexer.Reload()
    provider = data_provider.MultiplexerDataProvider(multiplexer, str(logdir))
    backend = backend_context.Context(base_plugin.TBContext(data_provider=provider))
    empty, experiment = context.RequestContext(), ""
    found = get_experiment.Handler(
        empty, backend, experiment, api_pb2.GetExperimentRequest()
    ).run()
    request = api_pb2.ListSessionGroupsRequest(
        allowed_statuses=STATUSES, slice_size=100
    )
    groups = list_session_groups.Handler(empty, backend, experiment, request).run()
    differing = {info.name for info in found.hparam_infos if info.differs}
    return differing, {group.name: group for group in groups.session_groups}


def metrics(group):
    return {x.name.tag: x.value for x in group.sessions[0].metric_values}


def settings(config=CONFIG):
    return config_file.with_defaults(config)


def test_the_plugin_shows_changed_settings_and_the_return_first(tmp_path):
    for name, epochs in (("1-a", 3), ("2-b", 5)):
        folder = tmp_path / name
        folder.mkdir()
        changed = dataclasses.replace(CONFIG.settings, epochs=epochs)
        config = dataclasses.replace(CONFIG, settings=changed)
        with Logger(folder, settings=settings(config)) as log:
            log.write({"episode/return_mean": 0.0, "async/x": 1.0}, 10)
            log.write({"eval/return_mean": 10.0 * epochs}, 20)
            if epochs == 3:
                log.event("finished", 20)
    differing, found = rows(tmp_path)
    assert differing == {"algorithm.epochs"}
    assert sorted(found) == ["a 1", "b 2"]  # the page shows the first letters only
    shown = found["b 2"].hparams
    assert sorted(shown) == [
        *("algorithm", "algorithm.epochs", "algorithm.network.hidden", "env", "seed")
    ]
    assert shown["algorithm.epochs"].number_value == 5
    assert shown["algorithm.network.hidden"].string_value == "32,16"
    assert shown["env"].string_value == "CartPole-v1"
    assert list(metrics(found["b 2"])) == ["Return/eval", "Return/training", "async/x"]
    assert metrics(found["b 2"])["Return/eval"] == 50
    (first,), (second,) = found["a 1"].sessions, found["b 2"].sessions
    assert first.status == api_pb2.STATUS_SUCCESS
    assert second.status != api_pb2.STATUS_SUCCESS


def test_the_text_has_all_settings_by_their_flags_and_no_secrets():
    first, second = table(settings()).split("\n\n")
    assert first.splitlines() == [
        "| setting | value | default |",
        "|---|---|---|",
        "| `--algorithm` | ppo | ppo |",
        "| `--env` | CartPole-v1 |  |",
        "| `--seed` | 0 | 0 |",
        "| `--eval_every` | 500 | none |",
        "| `--algorithm.network.hidden` | 32,16 | none |",
        "| `--algorithm.epochs` | 3 | 10 |",
    ]
    assert "| `--rollout.length` | 256 |" in second.splitlines()
    assert "| `--wrappers` | [] |" in second.splitlines()
    assert "secret" not in second


def test_a_resumed_run_keeps_its_row(tmp_path):
    folder = tmp_path / "a"
    folder.mkdir()
    with Logger(folder, settings=settings()) as log:
        log.write({"eval/return_mean": 1.0}, 10)
        log.event("stopped", 10)
    with Logger(folder, 10, settings=settings()) as log:
        log.write({"eval/return_mean": 2.0}, 20)
        log.event("finished", 20)
    _, found = rows(tmp_path)
    assert metrics(found["a"]) == {"Return/eval": 2}
    assert found["a"].sessions[0].status == api_pb2.STATUS_SUCCESS


@pytest.mark.parametrize("algorithm", REGISTRY)
def test_defaults_are_those_of_the_algorithm(algorithm):
    found = settings(RunConfig(algorithm=algorithm))
    assert not [name for name, setting in found.items() if setting.is_changed]
    assert f"{RunConfig(algorithm=algorithm).source.name}." in "".join(found)
