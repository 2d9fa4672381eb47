"""Run folders as TensorBoard's plugin for hyperparameters reads them."""

import dataclasses

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

from tfagents_batch.algorithms import ppo
from tfagents_batch.nn import networks
from tfagents_batch.training.config import RunConfig
from tfagents_batch.training.log.logger import Logger
from tfagents_batch.training.run_folder import config_file

CONFIG = RunConfig(
    env="CartPole-v1",
    settings=ppo.Config(epochs=3, network=networks.Config(hidden=(32, 16))),
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


def test_the_plugin_shows_settings_and_final_metrics(tmp_path):
    for name, epochs in (("a", 3), ("b", 5)):
        folder = tmp_path / name
        folder.mkdir()
        settings = dataclasses.replace(CONFIG.settings, epochs=epochs)
        changed = dataclasses.replace(CONFIG, settings=settings)
        with Logger(folder, settings=config_file.plain(changed)) as log:
            log.write({"eval/return_mean": 1.0}, 10)
            log.write({"eval/return_mean": 10.0 * epochs}, 20)
            if name == "a":
                log.event("finished", 20)
    differing, found = rows(tmp_path)
    assert differing == {"settings.epochs"}
    assert sorted(found) == ["a", "b"]
    shown = found["b"].hparams
    assert shown["settings.epochs"].number_value == 5
    assert shown["settings.normalize_observation"].bool_value is True
    assert shown["settings.network.hidden"].string_value == "[32, 16]"
    assert shown["env"].string_value == "CartPole-v1"
    assert shown["num_workers"].string_value == "none"
    assert metrics(found["b"]) == {"eval/return_mean": 50}
    (first,), (second,) = found["a"].sessions, found["b"].sessions
    assert first.status == api_pb2.STATUS_SUCCESS
    assert second.status != api_pb2.STATUS_SUCCESS


def test_a_resumed_run_keeps_its_row(tmp_path):
    folder = tmp_path / "a"
    folder.mkdir()
    with Logger(folder, settings=config_file.plain(CONFIG)) as log:
        log.write({"eval/return_mean": 1.0}, 10)
        log.event("stopped", 10)
    with Logger(folder, 10, settings=config_file.plain(CONFIG)) as log:
        log.write({"eval/return_mean": 2.0}, 20)
        log.event("finished", 20)
    _, found = rows(tmp_path)
    assert metrics(found["a"]) == {"eval/return_mean": 2}
    assert found["a"].sessions[0].status == api_pb2.STATUS_SUCCESS
