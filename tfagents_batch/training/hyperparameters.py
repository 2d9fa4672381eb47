"""What TensorBoard's tab of hyper-parameters shows of a run: a row of its settings.

Each run says its own settings only. TensorBoard makes columns of the runs it finds, and
tells those in which runs differ; metrics are the newest value of every scalar. It keeps
what a run says first, so a run that is resumed with other settings is shown with
the older ones, and only an end that is final is written.
"""

from __future__ import annotations

import json
import time
from typing import Any

from tensorboard.compat.proto import summary_pb2
from tensorboard.plugins.hparams import (
    api_pb2,
    metadata,
    plugin_data_pb2,
    summary_v2,
)

from tfagents_batch import config


def begin(settings: Any, run: str) -> summary_pb2.Summary:
    """Names a run's settings.

    Args:
      settings: its Config.
      run: its name, by which TensorBoard tells runs of equal settings apart.
    """
    plain = config.flat(config.to_dict(settings))
    values = {name: _value(value) for name, value in plain.items()}
    return summary_v2.hparams_pb(values, trial_id=run)


def end() -> summary_pb2.Summary:
    """Says that the run is finished."""
    info = plugin_data_pb2.SessionEndInfo(
        status=api_pb2.STATUS_SUCCESS, end_time_secs=time.time()
    )
    data = plugin_data_pb2.HParamsPluginData(session_end_info=info)
    summary = summary_pb2.Summary()
    summary.value.add(
        tag=metadata.SESSION_END_INFO_TAG,
        metadata=metadata.create_summary_metadata(data),
        tensor=metadata.NULL_TENSOR,
    )
    return summary


def _value(value: Any) -> bool | int | float | str:
    """As the plug-in takes it; None and structures are text."""
    if value is None:
        return "none"
    return value if isinstance(value, (bool, int, float, str)) else json.dumps(value)
