"""Tables of recorded results in Markdown: the newest run of every row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from benchmarks.measure import reaching, results
from benchmarks.work.thresholds import OURS, PEER

Line = dict[str, Any]
Cells = Iterable[Any]  # None leaves a cell out of the columns' alignment

LEARNING_PHASES = ("import", "construction", "first_iteration", "training")
START_PHASES = LEARNING_PHASES[:-1]
# Figures of long runs, and their titles.
ENDURANCE = {
    "learner_rss_mib": "resident memory of the learner, MiB",
    "workers_rss_mib": "resident memory of the workers, MiB",
    "seconds_per_step": "time a step, µs",
}


def table(
    header: Sequence[str],
    lines: Sequence[Line],
    rows: Callable[[list[Line]], Iterable[Cells]],
    origin: Callable[[str, list[Line]], str],
) -> str:
    """Return a table, and sentences below it about where it was measured.

    Args:
      header: titles of the columns; None for none.
      lines: lines of a results file.
      rows: function of a row's newest lines that returns the cells of its rows.
      origin: function of a row's name and newest lines that returns its sentence, or
        "". Equal sentences are printed once.
    """
    found = results.newest(lines)
    cells = [header, *(each for one in found.values() for each in rows(one))]
    shown = [_joined(each) for each in cells]
    shown.insert(1, "|---" * len(header) + "|")
    origins = [origin(name, each) for name, each in found.items()]
    return "\n".join([*shown, "", *filter(None, dict.fromkeys(origins))])


def environments(lines: Sequence[Line], everything: bool = False) -> str:
    """Return the comparisons of environments alone.

    It shows each peer's best setting, the best setting of each kind that has a goal,
    and all failures; with ``everything`` all settings.
    """

    def origin(name: str, line: Line) -> str:
        workers = line["subject_own"]["workers"]
        seconds = f"{line['pairs']} pairs of {line['config']['seconds']:g} s"
        what = f"{line['unit']}, {seconds}, ours in {workers} workers"
        return results.origin(line, what)

    return table(
        ["work", "ours", "against", "theirs", "ratio (95 %)", "goal"],
        lines,
        lambda found: map(_ratio, found if everything else _best(found)),
        lambda name, found: _measured(name, found, origin),
    )


def training(lines: Sequence[Line]) -> str:
    """Return the comparisons of training.

    It also shows the mean returns of the timed runs, over the last fifth of their
    episodes.
    """
    means = ["return, ours", "return, theirs", "at parity"]
    return table(
        ["work", "ours", "against", "theirs", "ratio (95 %)", "goal", *means],
        lines,
        lambda found: map(_trained, found),
        lambda name, found: _measured(name, found, _training_origin, _notes(found)),
    )


def costs(lines: Sequence[Line]) -> str:
    """Return single figures and goals: those of workers, and of the replay."""

    def row(line: Line) -> Cells:
        low, high = min(line["values"]), max(line["values"])
        median = f"{_figure(line['value'])} {line['unit']}"
        bounds = f"{_figure(low)} to {_figure(high)}"
        return line["title"], median, bounds, _most(line)

    return table(
        [None, "median", "range", "goal"],
        lines,
        lambda found: map(row, found),
        lambda _, found: _repeats(found[0]),
    )


def startup(lines: Sequence[Line]) -> str:
    """Return the times of ways to start."""

    def row(line: Line) -> Cells:
        if "failed" in line:
            failed = f"failed: {line['failed']['reason']}"
            return line["title"], failed, *[None] * 4, _most(line)
        low, high = min(line["values"]), max(line["values"])
        seconds = f"{line['value']:.2f} ({low:.2f} to {high:.2f})"
        phases = [f"{line['phases'][phase]:.2f}" for phase in START_PHASES]
        return line["title"], seconds, *phases, f"{line['env_steps']:,}", _most(line)

    phases = ["import", "construction", "first iteration", "env steps in it"]
    return table(
        ["start", "median s (range)", *phases, "goal"],
        lines,
        lambda found: map(row, found),
        lambda _, found: "" if "failed" in found[0] else _repeats(found[0]),
    )


def scaling(lines: Sequence[Line]) -> str:
    """Return the costs by number of environments."""

    def row(line: Line) -> Cells:
        training, acting = line["training"], line["acting"]
        rate = training["env_steps_per_second"]
        yield from (training["config"]["env"], line["num_envs"])
        yield from (f"{rate:,.0f}", f"{1e6 / rate:.1f}")
        yield f"{training['iteration_seconds']:.4f}"
        yield f"{acting['env_steps_per_second']:,.0f}"
        yield f"{training['learner_rss_mib']:.0f}"
        yield f"{training['workers_rss_mib']:.0f}"

    def origin(line: Line) -> str:
        config, values = line["training"]["config"], line["training"]["values"]
        what = (
            f"{config['env']}, {config['rollout_length']} steps an iteration, "
            f"{config['epochs']} epochs of {config['minibatches']} minibatches; "
            f"medians of {len(values['iteration_seconds'])} processes of "
            f"{config['seconds']:g} s"
        )
        return results.origin(line, what)

    def order(line: Line) -> tuple[str, int]:
        return line["training"]["config"]["env"], line["num_envs"]

    rates = ["training, env steps/s", "µs a step", "s an iteration"]
    memory = ["policy alone, env steps/s", "learner, MiB", "workers, MiB"]
    return table(
        ["environment", "number", *rates, *memory],
        sorted(lines, key=order),
        lambda found: [row(found[-1])],
        lambda _, found: origin(found[-1]),
    )


def endurance(lines: Sequence[Line]) -> str:
    """Return the trends of long runs."""

    def rows(found: list[Line]) -> Iterable[Cells]:
        line = found[-1]
        name = f"`{line['row']}`"
        for figure, title in ENDURANCE.items():
            trend = line[figure]
            slope, low, high = (trend[key] for key in ("slope", "low", "high"))
            ends = (f"{trend[key]:.1f}" for key in ("first", "last"))
            slopes = f"{slope:+.2f} ({low:+.2f} to {high:+.2f})"
            yield name, title, *ends, slopes, trend["verdict"]
        traces = [point["traces"] for point in line["points"]]
        verdict = "level" if traces[0] == traces[-1] else "grows"
        ends = traces[0], traces[-1]
        yield name, "traces of the update", *ends, None, verdict

    def origin(name: str, line: Line) -> str:
        every, workers = line["config"]["every"], line["own"]["workers"]
        what = f"`{name}`: a look every {every:,} steps, {workers} workers"
        return results.origin(line, what)

    return table(
        ["run", None, "first", "last", "slope per million steps (95 %)", None],
        lines,
        rows,
        lambda name, found: origin(name, found[-1]),
    )


def learning(lines: Sequence[Line]) -> str:
    """Return times to a threshold, with a row for each side."""

    def rows(found: list[Line]) -> Iterable[Cells]:
        yield _learned(found, OURS, "ours")
        if any(line["contender"] == PEER for line in found):
            yield _learned(found, PEER, "Stable-Baselines3")

    return table(
        [
            *("task", None, "reached", "median s (all)", "env steps"),
            *("sooner (95 %)", "goal"),
        ],
        lines,
        rows,
        _learning_origin,
    )


def _joined(cells: Cells) -> str:
    return "".join("| " if each is None else f"| {each} " for each in cells) + "|"


def _figure(value: float) -> str:
    """Format a number with three digits."""
    if value <= -1000:
        return f"-{_figure(-value)}"
    if value >= 1000:
        digits = 10 ** (len(str(int(value))) - 3)
        return f"{round(value / digits) * digits:,}"
    return f"{value:.3g}"


def _interval(value: float, low: float, high: float) -> str:
    return f"{_figure(value)} ({_figure(low)} to {_figure(high)})"


def _most(line: Line) -> str:
    return "" if line["goal"] is None else f"at most {line['goal']:g}"


def _repeats(line: Line) -> str:
    return results.origin(line, f"{len(line['values'])} processes each")


def _best(lines: list[Line]) -> list[Line]:
    """Return each peer's best setting, the best of a kind with a goal, and failures."""
    ran = [line for line in lines if "failed" not in line]
    chosen = []
    for line in ran:
        groups = [[x for x in ran if x["peer"] == line["peer"]]]
        if line["goal"] is not None:
            groups.append([x for x in ran if x["kind"] == line["kind"]])
        if any(line is max(x, key=lambda y: y["rival_value"]) for x in groups):
            chosen.append(line)
    return [line for line in lines if line in chosen or "failed" in line]


def _ratio(line: Line) -> Cells:
    against = ", ".join(x for x in (line["peer"], line["kind"], line["setting"]) if x)
    goal = "" if line["goal"] is None else f"{line['goal']:g}"
    if "failed" in line:
        reason = f"{line['failed']['contender']} {line['failed']['reason']}"
        return line["title"], None, against, f"failed: {reason}", None, goal
    found = line["ratio"]
    ratio = _interval(found["median"], found["low"], found["high"])
    ours, theirs = (_figure(line[f"{x}_value"]) for x in ("subject", "rival"))
    return line["title"], ours, against, theirs, ratio, goal


def _trained(line: Line) -> Cells:
    ours = ", ".join(x for x in (line["title"], line["subject_setting"]) if x)
    cells = _ratio({**line, "title": ours})
    if "failed" in line:
        return *cells, None, None, None
    parity = {True: "yes", False: "no", None: ""}[line.get("parity")]
    means = [_mean(line.get(f"{side}_return")) for side in ("subject", "rival")]
    return *cells, *means, f"{parity}*" if line.get("differs") else parity


def _mean(found: dict[str, Any] | None) -> str:
    if found is None:
        return ""
    if found["low"] is None:
        return _figure(found["mean"])
    return _interval(found["mean"], found["low"], found["high"])


def _measured(
    name: str,
    found: list[Line],
    origin: Callable[[str, Line], str],
    note: str = "",
) -> str:
    """Describe where a comparison was measured, if anything ran."""
    ran = [line for line in found if "failed" not in line]
    return f"`{name}`: {origin(name, ran[0]) if ran else 'nothing ran.'}{note}"


def _training_origin(name: str, line: Line) -> str:
    what = (
        f"{line['unit']}, {line['pairs']} pairs of {line['config']['steps']:,} "
        f"env steps and {line['config']['seconds']:g} s at least, ours with "
        f"{line['subject_own']['workers']} workers"
    )
    return results.origin(line, what)


def _notes(found: list[Line]) -> str:
    """Name what contenders do differently."""
    differing = {
        contender: ", ".join(keys)
        for line in found
        for contender, keys in line.get("differs", {}).items()
    }
    other = "; ".join(f"{contender}: {keys}" for contender, keys in differing.items())
    return f" \\* does other work ({other})." if other else ""


def _learned(found: list[Line], contender: str, side: str) -> Cells:
    mine = [line for line in found if line["contender"] == contender]
    ran = [line for line in mine if "failed" not in line]
    head, title, goal, sooner = mine[0] if mine else found[0], "", "", ""
    if contender == OURS:
        title = f"{head['title']}, {head['cache']} cache"
        goal = f"{found[0]['goal']:g}"
        if all(line["contender"] == OURS for line in found):
            goal = f"within {goal} s"
        sooner = _sooner(reaching.of_lines(found, OURS, PEER))
    if not ran:
        reason = mine[0]["failed"]["reason"] if mine else "did not run"
        return title, side, f"failed: {reason}", None, None, None, goal
    seconds, reached = ([line[key] for line in ran] for key in ("seconds", "reached"))
    middle = reaching.median(seconds, reached)
    every = ", ".join(
        f"{'' if line['reached'] else '> '}{line['seconds']:.1f}" for line in ran
    )
    median = f"{'' if middle.exact else 'at least '}{middle.seconds:.1f} ({every})"
    steps = int(np.median([line["steps"] for line in ran]))
    count = f"{sum(reached)} of {len(ran)}"
    return title, side, count, median, f"{steps:,}", sooner, goal


def _sooner(ratio: reaching.Sooner | None) -> str:
    if ratio is None or ratio.bound == "unknown":
        return "unknown" if ratio else ""
    value, low, high = (f"{x:.3g}" for x in ratio.ratio)
    bound = f"{ratio.bound} " if ratio.bound else ""
    return f"{bound}{value} ({low} to {high})"


def _learning_origin(name: str, found: list[Line]) -> str:
    """Describe where a task was measured, and the median seconds of each phase."""
    parts = []
    for contender, side in ((OURS, "ours"), (PEER, "theirs")):
        ran = [x for x in found if x["contender"] == contender and "failed" not in x]
        if not ran:
            continue
        phases = {x: np.median([y["phases"][x] for y in ran]) for x in LEARNING_PHASES}
        medians = [f"{x.replace('_', ' ')} {each:.1f}" for x, each in phases.items()]
        own = ran[0]["own"]
        if contender == PEER:
            setting = f"{own['vectorisation']}, {own['threads']} threads"
        elif own["workers"] is None:
            setting = "environments in the graph"
        else:
            setting = f"{own['workers']} workers"
        parts.append(f"{side} ({setting}) {', '.join(medians)} s")
    return results.origin(found[0], f"`{name}`: {'; '.join(parts)}")
