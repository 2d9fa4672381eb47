from gym.envs import registration

registration.register("Walk-v0", "gym.envs.walk:Walk", 20)
registration.register("Walk-v1", "gym.envs.walk:Walk", 20)

__all__ = ["registration"]
