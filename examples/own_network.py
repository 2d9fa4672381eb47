"""Your own network: an embedding for observations that are integers.

The algorithm adds its heads to the features. Run: python examples/own_network.py
"""

import keras

import tfagents_batch as tfb


def network(observation_space, action_space):
    """Return a new model in each call; integers arrive as the environment gave them."""
    return keras.Sequential(
        [
            keras.layers.Embedding(int(observation_space.n), 32),
            keras.layers.Dense(64, "relu"),
            keras.layers.LayerNormalization(),
        ]
    )


if __name__ == "__main__":
    slippery = {"is_slippery": True}
    run = tfb.train(
        "ppo",
        env="FrozenLake-v1",
        env_kwargs=slippery,
        network=network,
        steps=300_000,
        settings={"entropy_scale": 0.01},
    )
    result = tfb.evaluate(run.logdir, episodes=200, network=network)
    print(f"reaches the goal in {result.mean_return:.0%} of 200 episodes")

    agent = run.load(network=network)  # a run folder has the weights, not the code
    print("actions:", agent.predict(list(range(16)))[0].reshape(4, 4), sep="\n")
