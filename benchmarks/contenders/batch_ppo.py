"""batch-ppo 1.4 itself, the package ``agents``, in its own interpreter.

It was written for TensorFlow 1 and gym; ``inside.old_tensorflow`` provides both. Its
own loop runs its training phases, without evaluations, logs and checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.inside import old_tensorflow, session
from benchmarks.work.works import OBJECTIVE, PresetTraining, versions

DIFFERS = {
    "advantages": "it standardises them once, before the epochs",
    "minibatches": "it trains on chunks of episodes",
    "versions": "its TensorFlow needs an older NumPy",
}
# Its wrappers for work that our batch of environments does without a wrapper.
OF_A_BATCH = ("CacheSpaces", "ConvertTo32Bit")


class Agent:
    """Agent of batch-ppo; a block is a training phase: episodes, then the update."""

    differs = DIFFERS

    def __init__(self, work: PresetTraining, threads: int | None = None):
        old_tensorflow.load()
        with old_tensorflow.importing():
            from agents import tools
            from agents.scripts import configs, train, utility

        self._tf = tf = old_tensorflow.module()
        self._work = work
        given = settings(work, lambda: old_tensorflow.OldEnv(work.constructor()()))
        config = tools.AttrDict({**configs.pendulum(), **given})
        with config.unlocked:
            config.algorithm = _counting(tf, config.algorithm)
        self._layers = _layers(train._create_environment(config))
        tf.reset_default_graph()
        tf.set_random_seed(work.seed)
        with tf.device("/cpu:0"):
            # Its default, a process per environment, was half as fast.
            self._env = utility.define_batch_env(
                lambda: train._create_environment(config), work.num_envs, False
            )
            graph = utility.define_simulation_graph(self._env, config.algorithm, config)
            self._loop = tools.Loop(
                None, graph.step, graph.should_log, graph.do_report, graph.force_reset
            )
            self._loop.add_phase(
                "train",
                graph.done,
                graph.score,
                graph.summary,
                work.batch,
                report_every=work.batch,
                feed={graph.is_training: True},
            )
        self._graph = graph
        names = "intra_op_parallelism_threads", "inter_op_parallelism_threads"
        pools = {} if threads is None else dict.fromkeys(names, threads)
        self._session = tf.Session(
            config=tf.ConfigProto(allow_soft_placement=True, **pools)
        )
        utility.initialize_variables(self._session, None, None)
        self._step = 0
        self._iterations = 0
        self.episodes: list[float] = []
        self.own = {
            "workers": 0,
            "threads": threads or "TensorFlow's default",
            "autoreset": "before the next step; no step is lost",
            "preset": "pendulum",
            "cut off": "the value after a time limit is taken to be 0",
        }
        self.versions = versions("batch-ppo", "tensorflow-cpu", "tf-slim")

    @property
    def same(self) -> dict[str, Any]:
        work, tf = self._work, self._tf
        # Some of its trainable variables are not trained: copies of its last results.
        size = sum(
            int(variable.shape.num_elements())
            for variable in tf.trainable_variables()
            if variable.name.startswith("network/")
        )
        algorithm = self._graph.algo
        updates, rows = self._session.run([algorithm.updates, algorithm.rows])
        steps, rest = divmod(int(updates), self._iterations)
        assert rest == 0, "iterations took different numbers of gradient steps"
        fields = work.same(size, steps, int(rows))
        environment = fields["environment"]
        wrapped = {
            "wrappers": self._layers + environment["wrappers"],
            "time_limit": min(work.rollout_length, environment["time_limit"]),
        }
        return fields | {
            "environment": environment | wrapped,
            "advantages": "standardised over the episodes",
            "objective": OBJECTIVE,
            "minibatches": f"{work.chunks} chunks of {work.chunk_length} steps",
        }

    def close(self) -> None:
        self._env.close()  # ``same`` still reads the session, which the process ends

    def block(self) -> int:
        target = self._step + self._work.batch
        for score in self._loop.run(self._session, None, target):
            # It reports the mean of a phase, which counts for each of its episodes.
            self.episodes += [float(score)] * self._work.num_envs
        before, self._step = self._step, int(self._session.run(self._graph.step))
        self._iterations += 1
        return self._step - before


def settings(work: PresetTraining, env: Callable[[], Any]) -> dict[str, Any]:
    """Return the entries of its configuration that the work determines."""
    return {
        "env": env,
        "max_length": work.rollout_length,
        "num_agents": work.num_envs,
        "normalize_ranges": True,
        "update_every": work.num_envs,
        "update_epochs": work.epochs,
        "batch_size": work.chunks,
        "chunk_length": work.chunk_length,
        "policy_layers": tuple(work.hidden),
        "value_layers": tuple(work.hidden),
    }


def _counting(tf: Any, algorithm: type) -> type:
    """Return its algorithm, extended to count gradient steps and their rows."""

    class Counting(algorithm):
        def __init__(self, *args: Any, **kwargs: Any):
            self.updates = tf.Variable(0, trainable=False, name="counted_updates")
            self.rows = tf.Variable(0, trainable=False, name="counted_rows")
            super().__init__(*args, **kwargs)

        def _update_step(self, sequence: dict[str, Any]) -> Any:
            rows = tf.maximum(self.rows.read_value(), tf.reduce_sum(sequence["length"]))
            with tf.control_dependencies(
                [self.updates.assign_add(1), self.rows.assign(rows)]
            ):
                return super()._update_step(sequence)

    return Counting


def _layers(env: Any) -> list[str]:
    """Return the names of an environment's wrappers from the outside in; close it."""
    names = []
    while not isinstance(env, old_tensorflow.OldEnv):
        names.append(type(env).__name__)
        env = vars(env)["_env"]
    env.close()
    return [name for name in names if name not in OF_A_BATCH]


if __name__ == "__main__":
    session.main(Agent)
