"""Our training to a threshold: the train command with a preset."""

from benchmarks.inside import hooked, watch
from benchmarks.work.works import versions


def train(work, watched):
    from tfagents_batch.configs import PRESETS

    if (env := PRESETS[work.preset]().env).removeprefix("tf/") != work.env:
        raise ValueError(f"preset {work.preset!r} is for {env}, not {work.env}")
    own, acting = {}, []

    def built(experiment):
        watched.phase("construction")
        env = experiment.envs[0]
        own.update(
            preset=work.preset,
            num_envs=env.spec.num_envs,
            workers=getattr(env, "num_workers", None),
            route=getattr(env, "backend", "in the graph"),
            compile_cache=experiment.cache_off or "on",
            evaluated_actions="mode",
        )
        acting.append(_greedy(experiment.algorithm.policy))

    hooked.train(
        work.preset,
        built,
        lambda experiment, steps: watched.iteration(steps, acting[0]),
        seed=work.seed,
        eval_every=0,
        keeping=True,
    )
    return {"own": own, "versions": versions("tensorflow", "keras")}


def _greedy(policy):
    """Return ``act`` for an evaluation, which is compiled at its first call."""
    import tensorflow as tf

    from tfagents_batch.types import TimeStep

    @tf.function(autograph=False)
    def act(observation):
        batch = observation.shape[0]
        no = tf.zeros([batch], bool)
        step = TimeStep(observation, tf.zeros([batch]), no, no, no, {})
        noise = policy.noise((1, batch), 0)
        now = tf.nest.map_structure(lambda x: x[0], noise)
        state = policy.initial_state(batch)
        trained = tf.constant(0, tf.int64)  # only exploration would follow it
        return policy.act(step, state, now, trained, explore=False)[0]

    def greedy(observation):
        if observation.dtype == "float64":  # workers also convert to float32
            observation = observation.astype("float32")
        return act(tf.constant(observation)).numpy()

    return greedy


if __name__ == "__main__":
    watch.main(hooked.load, train)
