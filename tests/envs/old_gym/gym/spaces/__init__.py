import numpy as np


class Space:
    def __init__(self, shape=None, dtype=None):
        self.shape, self.dtype = shape, dtype
        self.seeded = None

    def seed(self, seed=None):
        self.seeded = seed


class Box(Space):
    def __init__(self, low, high, shape=None, dtype=np.float32):
        shape = np.shape(low) if shape is None else shape
        super().__init__(shape, np.dtype(dtype))
        self.low = np.full(shape, low, dtype)
        self.high = np.full(shape, high, dtype)


class Discrete(Space):
    def __init__(self, n):
        super().__init__((), np.int64)
        self.n = n


class MultiDiscrete(Space):
    def __init__(self, nvec):
        self.nvec = np.asarray(nvec, np.int64)
        super().__init__(self.nvec.shape, np.int64)


class MultiBinary(Space):
    def __init__(self, n):
        self.n = n
        super().__init__((n,) if isinstance(n, int) else tuple(n), np.int8)


class Tuple(Space):
    def __init__(self, spaces):
        super().__init__()
        self.spaces = spaces


class Dict(Space):
    def __init__(self, spaces):
        super().__init__()
        self.spaces = spaces


class Graph(Space):
    pass
