"""What goes wrong with episodes: none end, none pay, returns stand still or are lost.

And environments that take nearly all of the time.
"""

from __future__ import annotations

from tfagents_batch.training.progress import RETURN, Progress
from tfagents_batch.training.symptom import (
    Facts,
    Line,
    Patience,
    Seen,
    Symptom,
    above,
)

# Steps of each environment without the end of an episode, where no limit is known:
# ten times the longest episode of Gymnasium's classic and MuJoCo tasks.
LONG = 10_000
_MASKED = "env/masked"  # in every line of training, in no other
_ELAPSED = "time/elapsed_seconds"
_STEP_MS = "time/env_step_ms"


def no_episodes(facts: Facts, progress: Progress) -> Symptom:
    """No episode has ended for twice as long as one may last."""
    limit = facts.max_episode_steps
    each = LONG if limit is None else 2 * (limit + 1)
    ended: int | None = None  # step; of a resumed run, where it is resumed

    def look(line: Line) -> Seen | None:
        nonlocal ended
        if _MASKED not in line.metrics:
            return None
        if RETURN in line.metrics:
            ended = line.step
            return Seen(bad=False, good=True)
        ended = line.step if ended is None else ended
        waited = line.step - ended
        known = (
            "their time limit is not known; give them one "
            "(gymnasium.wrappers.TimeLimit), or do not mind if they have no end, but "
            "evaluations need one (--eval_every=0)"
            if limit is None
            else f"their time limit is {limit:,} steps; look at what the environment "
            "does after reset, and whether it says terminated and truncated"
        )
        text = (
            f"No episode ended in {waited:,} steps, {waited // facts.num_envs:,} of "
            "each environment. Without an end there is no return to see, and states "
            f"that episodes end in are never learned of. What to try: {known}"
        )
        return Seen(waited > each * facts.num_envs, False, text)

    return Symptom("no_episodes", Patience(lines=1, calm=1), look)


def no_reward(facts: Facts, progress: Progress) -> Symptom:
    """Every episode so far had the same return."""

    def look(line: Line) -> Seen | None:
        if RETURN not in line.metrics or facts.inherited:
            return None
        same = progress.high - progress.low <= 1e-6 * abs(progress.high)
        text = (
            f"Every episode so far had a return of {progress.high:.6g}, so there is "
            "nothing to prefer one action for. What to try: look at the reward that "
            "the environment returns; where it is rare, more exploration "
            "(--algorithm.entropy_scale=0.01 or more, --num_envs), a reward for coming "
            "closer, or an easier start"
        )
        return Seen(same, not same, text)

    return Symptom("no_reward", Patience(lines=20, part=0.1), look)


def return_flat(facts: Facts, progress: Progress) -> Symptom:
    """Half of the run is over, and returns have not left their noise."""

    def look(line: Line) -> Seen | None:
        late = line.step >= facts.steps / 2
        if RETURN not in line.metrics or progress.recent is None or not late:
            return None
        if facts.inherited:
            return None  # it may have learned all there is before
        if progress.high == progress.low:
            return None  # another alarm's
        flat = progress.gain <= 2 * progress.noise
        text = (
            f"The return does not rise: {progress.start:.5g} at the start, "
            f"{progress.recent:.5g} now, {progress.best:.5g} at best, where single "
            f"lines differ by {progress.noise:.3g}. What to try: more --steps if the "
            "task is hard; another --algorithm.learning_rate (ten times less, three "
            "times more); raise --num_envs or --rollout_length; "
            "--algorithm.gamma=0.999 if what pays comes late; raise "
            "--algorithm.entropy_scale if the entropy fell early; a policy at random "
            "for comparison: perhaps this is the best there is"
        )
        return Seen(flat, not flat, text)

    return Symptom("return_flat", Patience(lines=1), look)


def return_fell(facts: Facts, progress: Progress) -> Symptom:
    """Most of what was learned is lost again."""

    def look(line: Line) -> Seen | None:
        if RETURN not in line.metrics or progress.recent is None:
            return None
        risen = progress.gain > 4 * progress.noise
        text = (
            f"The return fell back: {progress.recent:.5g} now, {progress.best:.5g} at "
            f"best, {progress.start:.5g} at the start. The policy forgot, which one "
            "update too large can do. The best checkpoint of an evaluation is kept. "
            "What to try: --algorithm.learning_rate lower or falling (linear(3e-4, "
            "0)), fewer --algorithm.epochs, --algorithm.kl_stop=0.03, a larger "
            "--algorithm.minibatch_size"
        )
        return Seen(
            risen and progress.kept < 0.3, not risen or progress.kept > 0.5, text
        )

    return Symptom("return_fell", Patience(lines=5, part=0.02), look)


def env_share(facts: Facts, progress: Progress) -> Symptom:
    """Environments take nearly all of the time, so nothing else is worth tuning.

    Of a batch's steps since the line before, at their mean time, in the training time
    that passed.
    """
    before: tuple[int, float] | None = None

    def look(line: Line) -> Seen | None:
        nonlocal before
        metrics = line.metrics
        if not {_STEP_MS, _ELAPSED, _MASKED} <= metrics.keys():
            return None
        since, before = before, (line.step, metrics[_ELAPSED])
        if since is None or metrics[_ELAPSED] <= since[1] or metrics[_MASKED] >= 1:
            return None
        rows = (line.step - since[0]) / (1 - metrics[_MASKED])
        seconds = rows / facts.num_envs * metrics[_STEP_MS] / 1000
        share = seconds / (metrics[_ELAPSED] - since[1])
        text = (
            f"Environments take {min(share, 1):.0%} of the time "
            f"({metrics[_STEP_MS]:.3g} ms a step of the batch), so a faster update "
            "would change next to nothing. What to try: --num_workers, up to one a "
            "core; a larger --num_envs if workers wait for each other "
            "(time/worker_step_ms_p99 far above time/worker_step_ms_p50); a cheaper "
            "observation or simulation; --profile says more"
        )
        return above(share, 0.95, 0.9, text)

    return Symptom("env_share", Patience(lines=10, part=0.05), look)


EPISODES = (no_episodes, no_reward, return_flat, return_fell, env_share)
