"""Settings of experience from logged rows, see ``table``."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from tfagents_batch import config
from tfagents_batch.config import option
from tfagents_batch.devices import machine
from tfagents_batch.devices.placement import HOST, Placement
from tfagents_batch.errors import UserError
from tfagents_batch.features.layout import layout
from tfagents_batch.features.specification import Specification
from tfagents_batch.interfaces import Algorithm, Env
from tfagents_batch.logged import row_spaces, seen
from tfagents_batch.logged.reports import KEPT, TRAINED, ReportedRows, Reporter
from tfagents_batch.logged.table import RowTable, Sizes, TableStream, used
from tfagents_batch.offline import table_reader
from tfagents_batch.offline.features import specification, twin
from tfagents_batch.offline.manifest import FEATURES as FEATURES_FILE
from tfagents_batch.offline.table_reader import Columns, Partition
from tfagents_batch.schedules import is_finite
from tfagents_batch.types import EnvSpec

_PART = 0.5  # of the free memory, above which rows stay in their files
_REPORTED = 100_000  # rows of a report, at most
# Settings of environments that are stepped or played.
_STEPPING = (
    *("num_envs", "num_workers", "envs_per_worker", "on_fault", "env_options"),
    *("log_video_every", "stop_at_return", "wrappers", "env_kwargs"),
)


@dataclasses.dataclass(frozen=True)
class TableSettings:
    """Settings of logged rows; an ``experience.Experience``."""

    name: ClassVar[str] = "table"
    kind: ClassVar[str] = "rows"
    unit: ClassVar[str] = "gradient steps"
    beside: ClassVar[int] = 0
    takes_turns: ClassVar[bool] = False

    data: str = option("", "folder of a timeline, see tfagents-batch timeline")
    boosts: dict = option(
        {}, "numbers added to the rewards of actions, by the names of the actions"
    )
    target_action_distribution: dict = option(
        {}, "share that each action should have, by name; reports say how far it is"
    )
    features: str = option(
        "",
        "specification of features, see tfagents-batch features; empty: the timeline's",
    )
    reference_scores: dict = option(
        {},
        "mean returns of evaluations that count as 0 and 1 in eval/normalized_score, "
        'such as {"min": 20, "max": 3000}; those of a Minari dataset are known',
    )
    block_rows: int = option(
        1 << 20,
        "rows that are drawn from at a time; a larger table is used block by block",
        least=1,
    )
    stream: bool | None = option(
        None,
        "read rows from their files during training; none: if they take more than half "
        "of the free memory",
    )

    @property
    def program(self) -> str:
        """Kind of the program, see ``experience.Experience``."""
        return "host" if self.streams else "synchronous"

    @property
    def streams(self) -> bool:
        """True if rows stay in their files."""
        if self.stream is not None:
            return self.stream
        return _is_large(self._partition.folder, self.required_bytes())

    def required_bytes(self) -> int:
        """Return the bytes of all rows in memory."""
        timeline, known = self._partition, self.preprocessing()
        columns = None if known is None else layout(*known).size
        return timeline.rows * table_reader.row_bytes(timeline.schema, columns)

    @property
    def _partition(self) -> Partition:
        return table_reader.partition(self.data)

    @property
    def fingerprint(self) -> str:
        """Text that changes with the rows, see ``experience.Experience``."""
        return self._partition.fingerprint

    def normalized_score(self, mean_return: float) -> float | None:
        """Return the score of a mean return, see ``experience.Scores``."""
        scores = self.reference_scores
        if not scores or math.isnan(mean_return):
            return None
        return (mean_return - scores["min"]) / (scores["max"] - scores["min"])

    def training_rows(self) -> dict[str, Any]:
        """Return which episodes training sees, see ``experience.Experience``."""
        return seen.of_timeline(self._partition)

    def names(self) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Return the names of actions and ids of features, see ``Experience``."""
        schema = self._partition.schema
        return tuple(schema.actions), tuple(schema.features)

    def preprocessing(self) -> tuple[Specification, tuple[int, ...]] | None:
        """Return the specification of features and the ids of raw columns, or None.

        UserError if it cannot be read, or has features that the rows do not have.
        """
        timeline, path = self._partition, self.features
        expected = timeline.manifest.get("features_sha256")
        if not path and expected is None:
            return None
        features = specification.read(path or timeline.folder / FEATURES_FILE)
        if not path and features.sha256 != expected:
            raise UserError(
                f"{timeline.folder / FEATURES_FILE} has the hash "
                f"{features.sha256[:12]}..., but the timeline was made with "
                f"{str(expected)[:12]}...: it was changed; make the timeline again, or "
                "pass the file as --table.features"
            )
        layout(features, timeline.schema.features)  # which checks the ids
        return features, timeline.schema.features

    def check(self, run: Any) -> Self:
        """Return the checked settings, see ``experience.Experience``."""
        checked = config.check(self, "table.")
        if not checked.data:
            raise UserError("table.data is empty; expected the folder of a timeline")
        if not all(map(is_finite, checked.boosts.values())):
            raise UserError(
                f"table.boosts is {checked.boosts}; expected a finite number for each "
                "action"
            )
        target = checked.target_action_distribution
        shares = all(is_finite(x) and x >= 0 for x in target.values())
        if target and not (shares and abs(sum(target.values()) - 1) < 1e-6):
            raise UserError(
                f"table.target_action_distribution is {target}; expected numbers that "
                "are at least 0 and whose sum is 1"
            )
        scores = checked.reference_scores
        if scores and not (
            set(scores) == {"min", "max"}
            and all(map(is_finite, scores.values()))
            and scores["min"] < scores["max"]
        ):
            raise UserError(
                f'table.reference_scores is {scores}; expected {{"min": ..., "max": '
                "...}, finite numbers, the second one larger; or leave it out"
            )
        if run.overlap:
            raise UserError(
                "overlap is true, but nothing is collected from logged rows; leave "
                "overlap out"
            )
        _refuse(run, run.settings.accepts()[self.kind].meaningless)
        return checked

    def check_gamma(self, gamma: float | None) -> None:
        """Refuse another discount factor than that of the rows."""
        timeline = self._partition
        known = timeline.manifest["config"]["gamma"]
        if gamma is not None and gamma != known:
            raise UserError(
                f"gamma is {gamma}, but the timeline {timeline.folder} was made with "
                f"{known}; set --algorithm.gamma={known}, or make the timeline again"
            )

    def check_n_step(self, n_step: int) -> None:
        """Refuse targets of another number of rewards than rows hold."""
        timeline = self._partition
        known = timeline.manifest["config"]["n_step"]
        if n_step != known:
            raise UserError(
                f"n_step is {n_step}, but the timeline {timeline.folder} was made with "
                f"{known}; set --algorithm.n_step={known}, or make the timeline again "
                f"with --n_step={n_step}"
            )

    def check_discount_per_step(self) -> None:
        """Refuse rows that are discounted by time, as steps of environments are not."""
        timeline = self._partition
        known = timeline.manifest["config"]["discount"]
        if known != "step":
            raise UserError(
                f"the timeline {timeline.folder} was made with discount={known}, but "
                "steps of an environment are discounted one by one; make it again with "
                "--discount=step"
            )

    def check_spaces(self, env: EnvSpec) -> EnvSpec:
        """Return the spec of an environment; UserError if rows cannot be its steps."""
        timeline = self._partition
        action = row_spaces.action_space(timeline)
        rows = EnvSpec(1, row_spaces.observation_space(timeline), action, {})
        return row_spaces.fitting(env, rows, timeline)

    def _check_rows(self, run: Any, timeline: Partition) -> None:
        self.check_gamma(run.settings.accepts()[self.kind].gamma)
        known = timeline.manifest["config"]
        if self.boosts and known["n_step"] > 1:
            raise UserError(
                f"table.boosts would change only the first of the {known['n_step']} "
                f"rewards of a sample in {timeline.folder}; make the timeline with "
                "--custom_reward, or with --n_step=1"
            )
        for name in ("boosts", "target_action_distribution"):
            if unknown := sorted({*getattr(self, name)} - {*timeline.schema.actions}):
                raise UserError(
                    f"table.{name} names {', '.join(unknown)}; expected names of "
                    f"actions, which are {', '.join(timeline.schema.actions) or 'none'}"
                )

    def environments(self, recipe: Any, run: Any) -> tuple[tuple[Env, ...], EnvSpec]:
        """Return no environments, and the spaces of the rows or of the run's one.

        UserError if the environment's spaces do not fit the rows.
        """
        timeline = self._partition
        self._check_rows(run, timeline)
        if recipe.env:
            env = recipe.make(1, **({"num_workers": 0} if recipe.has_workers else {}))
            if recipe.creates:
                env.close()
            return (), self.check_spaces(env.spec)
        presence = self.preprocessing() is not None
        observation = row_spaces.observation_space(timeline, presence)
        return (), EnvSpec(1, observation, row_spaces.action_space(timeline), {})

    def transitions(self, num_envs: int, max_episode_steps: int | None) -> int:
        """Return 1: an update has a batch of rows whatever the environments are."""
        del num_envs, max_episode_steps
        return 1

    def open(
        self,
        envs: tuple[Env, ...],
        algorithm: Algorithm,
        seed: int,
        run: Any,
        placement: Placement = HOST,
    ) -> RowTable | TableStream:
        """Read the rows, or begin to, see ``experience.Experience``."""
        del envs, seed
        batch = algorithm.config.accepts()[self.kind].batch_size
        if not self.streams:
            with placement.updating():
                return self.in_memory(batch)
        read, sizes = self._blocks(batch)
        return TableStream(read, sizes, run.seed, run.steps)

    def in_memory(self, batch_size: int) -> RowTable:
        """Return the rows as variables, from which batches are drawn."""
        read, sizes = self._blocks(batch_size)
        return RowTable(map(read, range(len(sizes.blocks))), sizes)

    def _blocks(self, batch_size: int) -> tuple[Callable[[int], Columns], Sizes]:
        """Return a function that reads a block of training rows, and their sizes."""
        timeline = self._partition
        every = table_reader.blocks(timeline, self.block_rows)
        rows = ((block, table_reader.training_rows(timeline, block)) for block in every)
        counts = {block: count for block, count in rows if count}
        if not counts:
            raise UserError(
                f"{timeline.folder} has no row for training; make the timeline again "
                "with a larger --train_share"
            )
        blocks, sizes = list(counts), Sizes(tuple(counts.values()), batch_size)
        masked = row_spaces.is_masked(timeline)
        prepared, missing = self._preparation(timeline)

        def read(number: int) -> Columns:
            raw = table_reader.read(
                timeline, blocks[number], missing, table_reader.TRAIN
            )
            return used(prepared(raw), masked)

        return read, sizes

    def evaluator(self, algorithm: Algorithm, placement: Placement) -> Reporter:
        """Return what reports on rows for evaluation, or those for training.

        Only half of the episodes for evaluation are reported on, because the best
        checkpoint is chosen by them; see ``seen``. As many rows for training have TD
        errors, too.
        """
        timeline = self._partition
        half = seen.reported(timeline)
        last = None if half is None else half.high
        kept = self._reported(timeline, table_reader.EVALUATE, _REPORTED, last)
        size = len(kept.returns)
        trained = self._reported(timeline, table_reader.TRAIN, size or _REPORTED)
        rows = {TRAINED: trained, KEPT: kept}
        rows = {tag: x for tag, x in rows.items() if len(x.returns)}
        names = timeline.schema.actions
        if timeline.schema.mode == "parametric":
            names = map(str, range(table_reader.most_candidates(timeline)))
        target = self.target_action_distribution
        return Reporter(algorithm, rows, tuple(names), placement, target)

    def _reported(
        self, timeline: Partition, split: str, most: int, last_key: int | None = None
    ) -> ReportedRows:
        """Return the first rows of a split with what is known of each."""
        prepared, missing = self._preparation(timeline)
        columns = table_reader.of_split(timeline, split, most, missing, last_key)
        columns = prepared(columns)
        return ReportedRows(
            used(columns, row_spaces.is_masked(timeline)),
            columns["propensity"],
            table_reader.returns(columns),
            table_reader.steps_to_end(columns),
        )

    def _preparation(
        self, timeline: Partition
    ) -> tuple[Callable[[Columns], Columns], float]:
        """Return a function that adds boosts to rewards and normalizes states.

        Also the number that stands for a missing feature before that.
        """
        known = self.preprocessing()
        places = None if known is None else layout(*known)
        boosts = [self.boosts.get(name, 0.0) for name in timeline.schema.actions]

        def prepared(columns: Columns) -> Columns:
            if self.boosts:
                added = np.asarray(boosts, np.float32)[columns["action"]]
                columns = columns | {"reward": columns["reward"] + added}
            if places is None:
                return columns
            parts = ("state", "next_state")
            return columns | {x: twin.normalize(places, columns[x]) for x in parts}

        return prepared, 0.0 if places is None else math.nan


def newest(data: str | os.PathLike[str] | None) -> TableSettings:
    """Return the settings for the newest partition of a table.

    The path is absolute and that of the partition, so a run that is resumed, wherever
    that is, goes on with the rows that it began with.
    """
    if not data:
        return TableSettings()
    return TableSettings(str(table_reader.partition(data).folder.absolute()))


def replaced(settings: TableSettings, changes: dict[str, Any]) -> TableSettings:
    """Return changed settings, with absolute paths, see ``newest``."""
    changed = config.replace(settings, changes, "table.")
    if not changed.features:
        return changed
    path = str(Path(changed.features).expanduser().absolute())
    return dataclasses.replace(changed, features=path)


@functools.lru_cache(maxsize=64)  # rows in memory leave less of it for the next answer
def _is_large(folder: Path, size: int) -> bool:
    """Return whether the rows of a folder take too much of the free memory."""
    del folder
    free = machine.available_bytes()
    return free is not None and size > _PART * free


def _refuse(run: Any, meaningless: tuple[str, ...]) -> None:
    """Refuse settings that mean nothing without environments to collect from."""
    settings = dict.fromkeys(meaningless, run.settings)
    settings |= dict.fromkeys(("log_info", *(() if run.env else _STEPPING)), run)
    for name, part in settings.items():
        value = getattr(part, name)
        default = getattr(type(part), name, None)  # none of lists and dicts
        if value != default and value:
            prefix = "algorithm." if part is run.settings else ""
            raise UserError(
                f"{prefix}{name} is {value}, which means nothing for logged rows"
                + (" without an environment" if name in _STEPPING else "")
                + "; leave it out"
            )
