"""Predictor of an ONNX export, with NumPy and ONNX Runtime only.

    predictor = Predictor.load("exports/cartpole")
    answer = predictor.act(observations)  # float32 [B, 4]
    answer["action"], answer["propensity"]

Importing this module imports neither TensorFlow, Keras nor Gymnasium.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfagents_batch.errors import UserError, first_line
from tfagents_batch.serving import reading
from tfagents_batch.serving.description import (
    ABSOLUTE,
    FILE,
    PARITY_ROWS,
    RELATIVE,
    Description,
)
from tfagents_batch.serving.inputs import Arrays, Structure, memory, to_array
from tfagents_batch.serving.observations import Reader, stack
from tfagents_batch.serving.reading import Call, directly

Answer = dict[str, Any]
"""Arrays by the names of the export's outputs, with a batch axis in front."""


class Predictor:
    """Predictor of actions, values and probabilities; one thread at a time may use it.

    ``load`` creates it.

    Attributes:
      description: the export's description.
      seconds: duration of the model's run on the parity inputs, the quickest of three.
    """

    def __init__(self, description: Description, session: Any, seed: int | None):
        self.description, self._session = description, session
        self._outputs = [output.name for output in description.outputs]
        self._generator = np.random.default_rng(seed)
        self._noise = description.with_role("noise")
        self._states = description.with_role("state")
        self._structure = Structure(description, batch=True)
        self._reader = Reader(description)
        self.seconds = 0.0

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        threads: int = 1,
        seed: int | None = None,
        call: Call = directly,
    ) -> Predictor:
        """Load an export, and compare its outputs with those of the export's check.

        Args:
          folder: folder of an ONNX export.
          threads: threads of a run; more pay only for large models.
          seed: seed of the noise; None draws another one each time.
          call: calls what takes long and does not need Python's lock; it may do so in
            another thread.

        Raises:
          UserError: if the export is truncated, is of another format, or gives other
            outputs than when it was exported; or if ONNX Runtime is not installed.
        """
        try:
            import onnxruntime
        except ImportError as error:
            raise UserError(
                f'a predictor needs ONNX Runtime ({error}); pip install "onnxruntime"'
            ) from error
        description = reading.read(folder, call)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = 4  # the error says what is wrong with a model
        # Without this, threads of a run use a core while they wait for the next one.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            session = call(
                onnxruntime.InferenceSession,
                str(description.model),
                options,
                ["CPUExecutionProvider"],
            )
        except Exception as error:  # classes of ONNX Runtime have no common base
            raise UserError(
                f"{description.model} cannot be loaded by ONNX Runtime "
                f"{onnxruntime.__version__}: {first_line(error):.500}"
            ) from error
        _check_names(description, session)
        predictor = cls(description, session, seed)
        predictor._check_parity(call)
        return predictor

    def act(
        self,
        observations: Any,
        episode_start: Any = None,
        state: Sequence[Any] | None = None,
        noise: Any = None,
    ) -> Answer:
        """Select actions for a batch of observations.

        Args:
          observations: array ``[B, ...]``, or dicts and tuples of them as in the
            observation space. Pixels stay uint8. For features with ids, such as of a
            table, also a list of dicts by the id or the name of a feature.
          episode_start: bool ``[B]``, or one for all rows; recurrent policies only:
            where the state starts anew. Without it, all of them if ``state`` is None,
            else none.
          state: recurrent policies only: ``state`` of the answer before.
          noise: noise that selects the actions; None draws it.

        Returns:
          Outputs by name: "action" ``[B, ...]``, a dict or tuple of arrays for such
          actions; "propensity" or "log_density"
          ``[B]``; "probabilities", "values" ``[B, A]`` or "value" ``[B]`` if the model
          has them; "state", a tuple of arrays, if it is recurrent.

        Raises:
          UserError: for observations of another structure, shape or type, for NaN,
            for whole numbers beyond the space, and for a mask of zeros.
        """
        feeds = self._given(observations, episode_start, state)
        if noise is not None:
            if not self._noise:
                raise UserError(
                    "noise is given, but this export has no exploration; leave it out"
                )
            (field,) = self._noise
            feeds[field.name] = to_array(noise, field, "noise", batch=True)
        _check_rows(feeds)
        return self.description.packed(self.run(feeds))

    def predict(
        self, observations: Any, episode_start: Any = None, state: Any = None
    ) -> Answer:
        """Return what the policy knows, and its greedy actions, without drawing.

        Arguments as of ``act``. "action" is the greedy one; it is left out for actions
        that are neither Discrete nor a Box if the export explores. "propensity" and
        "log_density" are left out, as nothing is drawn.
        """
        feeds = self._given(observations, episode_start, state)
        _check_rows(feeds)
        return self.description.packed(self.run_greedy(feeds))

    def run(
        self, feeds: Mapping[str, np.ndarray], outputs: Sequence[str] | None = None
    ) -> Answer:
        """Run the model on inputs that were checked; noise that is missing is drawn.

        Args:
          feeds: arrays by input.
          outputs: names of the outputs that are needed; None for all.
        """
        feeds = dict(feeds)
        count = len(next(iter(feeds.values())))
        for field in self._noise:
            if field.name not in feeds:
                draw = self._generator.standard_normal
                if field.distribution == "uniform":
                    draw = self._generator.random
                feeds[field.name] = draw((count, *field.shape), np.float32)
        names = self._outputs if outputs is None else outputs
        answer = dict(zip(names, self._session.run(names, feeds), strict=True))
        states = [answer.pop(f"next_{field.name}") for field in self._states]
        return answer | {"state": tuple(states)} if states else answer

    def run_greedy(self, feeds: Mapping[str, np.ndarray]) -> Answer:
        """Run the model on inputs that were checked, see ``predict``."""
        count = len(next(iter(feeds.values())))
        # Zeros are the mean of a normal distribution.
        zeros = {x.name: np.zeros((count, *x.shape), np.float32) for x in self._noise}
        answer = self.run({**feeds, **zeros})
        answer.pop("propensity", None)
        answer.pop("log_density", None)
        if self._noise and "probabilities" in answer:
            scores = answer["probabilities"]
            if self.description.exploration == 1:  # does not single out the greedy one
                scores = np.where(scores > 0, answer.get("values", scores), -np.inf)
            action = np.argmax(scores, -1) + self.description.start
            answer["action"] = action.astype(answer["action"].dtype)
        elif self._noise and self._noise[0].distribution != "normal":
            del answer["action"]
        return answer

    def _given(self, observations: Any, episode_start: Any, state: Any) -> Arrays:
        """Return the inputs of a batch, checked."""
        feeds: Arrays = {}
        if self.description.is_by_id and _are_dicts(observations):
            decisions = [self._reader.read(x) for x in observations]
            feeds |= stack(self.description, decisions)
        else:
            self._structure.read(observations, feeds)
        if self._states:
            count = len(next(iter(feeds.values())))
            return feeds | memory(self.description, state, episode_start, count)
        if state is not None:
            raise UserError("state is given, but this policy is not recurrent")
        return feeds

    def _check_parity(self, call: Call) -> None:
        """Compare outputs with those that were stored when the export was made."""
        description, folder = self.description, self.description.folder
        rows = reading.parity_rows(description)
        feeds = {x.name: rows[f"inputs/{x.name}"] for x in description.inputs}
        try:
            # The first run allocates memory.
            outputs = call(self._session.run, self._outputs, feeds)
            self.seconds = math.inf
            for _ in range(3):  # the quickest, as other programs may use the processor
                start = time.perf_counter()
                outputs = self._session.run(self._outputs, feeds)
                self.seconds = min(self.seconds, time.perf_counter() - start)
        except Exception as error:  # see load
            raise reading.broken(
                folder,
                f"the model does not take {PARITY_ROWS} ({first_line(error):.500})",
            ) from error
        for field, output in zip(description.outputs, outputs, strict=True):
            expected = rows[f"outputs/{field.name}"].astype(float)
            where = f"the model's {field.name}"
            reading.check_shape(folder, output, field, len(expected), where)
            output = output.astype(float)
            size = np.maximum(ABSOLUTE, RELATIVE * np.abs(expected))
            far = ~((np.abs(output - expected) <= size) | (output == expected))
            if far.any():
                raise UserError(
                    f"{folder} fails its parity check: {field.name} differs from "
                    f"{PARITY_ROWS} in {far.sum()} of {far.size} numbers, "
                    f"such as {output[far][0]:.6g} instead of {expected[far][0]:.6g}; "
                    "export again, or use the ONNX Runtime of the export"
                )


def _check_names(description: Description, session: Any) -> None:
    """Refuse a model with other inputs or outputs than its description has."""
    actual = {x.name for x in (*session.get_inputs(), *session.get_outputs())}
    expected = {x.name for x in (*description.inputs, *description.outputs)}
    if actual != expected:
        raise reading.broken(
            description.folder,
            f"{', '.join(sorted(actual ^ expected))!r:.200} are in the model or in "
            f"{FILE}, but not in both",
        )


def _are_dicts(observations: Any) -> bool:
    rows = isinstance(observations, (list, tuple)) and len(observations) > 0
    return rows and all(isinstance(x, Mapping) for x in observations)


def _check_rows(feeds: Arrays) -> None:
    """Refuse inputs of an empty batch, or of different ones."""
    rows = {name: len(x) for name, x in feeds.items()}
    if len({*rows.values()}) > 1 or 0 in rows.values():
        raise UserError(
            f"the batch has the rows {rows}; expected the same number for all inputs, "
            "and at least one"
        )
