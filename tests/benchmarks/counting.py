from tfagents_batch.envs.testing import CountingEnv


class TallyEnv(CountingEnv):
    """Environment that writes one byte to a file for every step."""

    def __init__(self, path: str, length: int):
        super().__init__(length)
        self._path = path

    def step(self, action):
        with open(self._path, "ab") as file:
            file.write(b".")
        return super().step(action)
