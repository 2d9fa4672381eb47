"""The hub in a program on a GPU; the driver and the GPU are those of fake_cuda.cc."""

import ctypes
import functools
import gc

import gymnasium.spaces as gs
import numpy as np
import pytest
import tensorflow as tf

from tests.envs.native.gpu_calls import Driver, GpuCalls, GpuError
from tests.support.fault_env import fault_envs
from tests.support.space_env import SpaceEnv
from tfagents_batch import nest
from tfagents_batch.envs.contract import random_actions
from tfagents_batch.envs.graph import host_calls
from tfagents_batch.errors import EnvError, Stopped, UserError, WorkerCrashed

pytestmark = [
    pytest.mark.xla,
    pytest.mark.parametrize("backend", ["native"], indirect=True),
]
STEPS = 12
IMAGES = gs.Dict(
    image=gs.Box(0, 255, (20, 20, 3), np.uint8),
    many=gs.MultiBinary(3),
    number=gs.Discrete(5),
)
ACTIONS = gs.Dict(
    box=gs.Box(-0.5, 0.5, (2,), np.float32), small=gs.Box(-3, 3, (1,), np.int8)
)
ZEROS = np.zeros(4, np.int32)  # actions of four environments of ``fault_envs``


class CpuCalls:
    """Calls on the CPU with the methods of ``GpuCalls``."""

    def __init__(self, env):
        self._calls, self._outputs, self._groups = (
            env._calls,
            host_calls.outputs(env.spec),
            env.num_groups,
        )

    def init(self, seed):
        return self._calls.init(tf.constant(seed, tf.int64))

    def step(self, inputs):
        return self._calls.step([tf.constant(x) for x in inputs])

    def send(self, inputs):
        return self._calls.send([tf.constant(x) for x in inputs])[0]

    def receive(self, inputs, count):
        rows = [
            tf.TensorSpec([x.shape[0] // self._groups * count, *x.shape[1:]], x.dtype)
            for x in self._outputs[1:]
        ]
        outputs = [self._outputs[0], tf.TensorSpec([count], tf.int32), *rows]
        return self._calls.receive([tf.constant(x) for x in inputs], outputs)

    def ok(self, token):
        return self._calls.ok(tf.constant(token))


@pytest.fixture(scope="session")
def compiled_driver(library, tmp_path_factory):
    library.tfab_cuda_driver.restype = ctypes.c_char_p
    library.tfab_cuda_driver.argtypes = (ctypes.c_char_p,)
    return Driver(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def driver(library, compiled_driver):
    """Let hubs use the driver; afterwards it has seen no mistake and keeps nothing."""
    assert library.tfab_cuda_driver(str(compiled_driver.path).encode()) is None
    yield compiled_driver
    gc.collect()  # of the hubs
    library.tfab_cuda_driver(None)
    report = compiled_driver.report()
    compiled_driver.reset()
    assert report[:4] == (0, 0, 0, 0), report


@pytest.fixture
def make(driver, make_process_env):
    """Return ``make_process_env``; it closes environments before ``driver`` checks."""
    return make_process_env


@pytest.fixture
def on_gpu(driver, library):
    """Return a function from an environment and optional stream to its calls."""
    return functools.partial(GpuCalls, driver, library)


def image_envs():
    lengths = (3, 4, 7, 2)
    return [functools.partial(SpaceEnv, IMAGES, ACTIONS, length) for length in lengths]


def make_actions(env):
    """Return the leaves of the actions of each step."""
    actions = random_actions(env.spec, STEPS, 7)
    return [[np.asarray(x) for x in nest.flatten(action)] for action in actions]


def assert_equal(found, expected):
    """Compare the outputs of several calls, which are read only now."""
    for outputs, others in zip(found, expected, strict=True):
        for x, y in zip(outputs, others, strict=True):
            np.testing.assert_array_equal(x.numpy(), y.numpy())


def rollout(calls, actions):
    outputs = [calls.init(3)]
    for action in actions:
        outputs.append(calls.step([outputs[-1][0], *action]))
    return outputs


def rollout_in_groups(calls, actions):
    """Send and receive two groups of two rows in several orders."""
    outputs = [calls.init(3)]
    token = outputs[0][0]
    for t, action in enumerate(actions):
        halves = [[x[:2] for x in action], [x[2:] for x in action]]
        token = calls.send([token, np.int32([1]), *halves[1]])
        token = calls.send([token, np.int32([0]), *halves[0]])
        if t % 4 == 0:  # one group each
            outputs.append(calls.receive([token, np.int32([1])], 1))
            outputs.append(calls.receive([outputs[-1][0], np.int32([0])], 1))
        elif t % 4 < 3:  # both, in and out of the order of their rows
            order = np.int32([0, 1] if t % 4 == 1 else [1, 0])
            outputs.append(calls.receive([token, order], 2))
        else:  # all that are ready
            outputs.append(calls.receive([token], 2))
        token = outputs[-1][0]
        token = calls.send([token, np.int32([1, 0]), *action])  # both at once
        outputs.append(calls.receive([token, np.int32([0, 1])], 2))
        token = outputs[-1][0]
    return outputs


@pytest.mark.parametrize("registers", [True, False])
@pytest.mark.parametrize("run", [rollout, rollout_in_groups])
def test_a_gpu_gets_the_same_transitions_as_the_cpu(
    make, on_gpu, driver, run, registers
):
    driver.fail("cuMemHostRegister_v2", 0 if registers else 801)
    envs = [make(image_envs(), 2, groups=1 + (run is not rollout)) for _ in range(2)]
    actions = make_actions(envs[0])
    assert_equal(run(on_gpu(envs[0]), actions), run(CpuCalls(envs[1]), actions))
    report = driver.report()
    assert (report.from_registered > 0) == registers


def test_whole_steps_are_copied_from_the_memory_of_the_workers(make, on_gpu, driver):
    env = make(image_envs(), 2)
    rollout(on_gpu(env), make_actions(env))
    report = driver.report()
    assert report.from_registered > (STEPS + 1) * 4 * 20 * 20 * 3
    assert report.from_pinned == 0


def test_a_step_waits_once_and_its_flag_does_not_wait(make, on_gpu, driver):
    calls = on_gpu(make(fault_envs(None, 4), 2))
    token = calls.step([calls.init(1)[0], ZEROS])[0]  # allocates memory
    before = [driver.count(f"cu{kind}Synchronize") for kind in ("Stream", "Event")]
    for _ in range(3):
        token = calls.step([token, ZEROS])[0]
    ok = calls.ok(token)
    after = [driver.count(f"cu{kind}Synchronize") for kind in ("Stream", "Event")]
    assert np.subtract(after, before).tolist() == [3, 0]
    assert ok.numpy()


def test_memory_is_registered_once_and_until_the_environment_is_closed(
    make, on_gpu, driver
):
    envs = [make(fault_envs(None, 4), 2) for _ in range(2)]
    outputs = rollout(on_gpu(envs[0]), [[ZEROS]] * 3)
    assert driver.count("cuMemHostRegister_v2") == driver.report().registered == 1
    assert driver.count("cuMemHostAlloc") <= 2  # for reset and step
    envs[0].close()  # while copies are queued
    assert driver.count("cuMemHostUnregister") == 1
    assert driver.report().registered == 0
    assert_equal(outputs, rollout(CpuCalls(envs[1]), [[ZEROS]] * 3))


@pytest.mark.parametrize("registers", [True, False])
@pytest.mark.parametrize("other", [2, 12])
def test_results_stay_intact_when_another_stream_goes_on(
    make, on_gpu, driver, registers, other
):
    driver.fail("cuMemHostRegister_v2", 0 if registers else 801)
    envs = [make(fault_envs(None, 4), 2) for _ in range(2)]
    streams = [on_gpu(envs[0], stream) for stream in (1, other)]
    expected = rollout(CpuCalls(envs[1]), [[ZEROS]] * 4)
    outputs = [streams[0].init(3)]
    for t in range(4):
        token = expected[t][0].numpy()  # reading it on the GPU would wait
        outputs.append(streams[(t + 1) % 2].step([token, ZEROS]))
    assert_equal(outputs, expected)


def test_results_stay_intact_when_the_cpu_goes_on(make, on_gpu):
    envs = [make(fault_envs(None, 4), 2) for _ in range(2)]
    expected = rollout(CpuCalls(envs[1]), [[ZEROS]] * 2)
    first = on_gpu(envs[0]).init(3)
    second = CpuCalls(envs[0]).step([expected[0][0].numpy(), ZEROS])
    third = on_gpu(envs[0]).step([second[0].numpy(), ZEROS])
    assert_equal([first, second, third], expected)


@pytest.mark.parametrize("on_fault", ["raise", "restart"])
@pytest.mark.parametrize("mode", ["kill", "exc"])
def test_a_fault_fails_the_same_rows_as_on_the_cpu(make, on_gpu, mode, on_fault):
    envs = [make(fault_envs(mode, 4, step=2), 2, on_fault=on_fault) for _ in range(2)]
    found = rollout(on_gpu(envs[0]), [[ZEROS]] * 3)
    expected = rollout(CpuCalls(envs[1]), [[ZEROS]] * 3)
    assert_equal(found[:-1], expected[:-1])
    assert_equal([found[-1][:-2]], [expected[-1][:-2]])  # without statistics
    observation, reward, first = (x.numpy() for x in found[-1][1:4])
    assert first.tolist() == [False, False, mode == "kill", True]
    assert observation[3].tolist() == [3, 0, 2] and reward[3] == 0
    assert on_gpu(envs[0]).ok(found[-1][0]).numpy() == (on_fault == "restart")
    if on_fault == "raise":
        with pytest.raises(WorkerCrashed if mode == "kill" else EnvError):
            envs[0].check()
        with pytest.raises(EnvError):
            envs[1].check()


def test_nothing_is_copied_from_the_memory_of_a_late_worker(make, on_gpu, driver):
    """It may still write there."""
    env = make(fault_envs("hang", 4, step=0), 2, step_seconds=0.2)
    calls = on_gpu(env)
    token = calls.init(1)[0]
    before = driver.report().from_registered
    outputs = calls.step([token, ZEROS])
    assert before > 0 and driver.report().from_registered == before
    assert outputs[3].numpy().tolist() == [False, False, True, True]
    with pytest.raises(EnvError, match="did not answer before its deadline"):
        env.check()


def test_a_closed_environment_fails_all_rows(make, on_gpu):
    env = make(fault_envs(None, 4), 2)
    calls = on_gpu(env)
    token = calls.init(1)[0]
    env.close()
    outputs = calls.step([token, ZEROS])
    assert outputs[3].numpy().all() and not calls.ok(outputs[0]).numpy()
    with pytest.raises(
        EnvError, match="the environments are closed; create a new environment"
    ):
        env.check()


@pytest.mark.parametrize(
    ("token", "action", "error", "text"),
    [
        (1, 0, Stopped, "stop"),
        (1, 7, EnvError, r"action is 7; Discrete\(2\) takes 0 to 1"),
        (0, 0, UserError, "the state of call 0 was used after call 1"),
    ],
)
def test_a_stop_or_a_wrong_input_fails_all_rows(
    make, on_gpu, token, action, error, text
):
    env = make(fault_envs(None, 4), 2)
    calls = on_gpu(env)
    calls.init(1)
    if error is Stopped:
        env.stop()
    outputs = calls.step([np.int32(token), ZEROS + action])
    assert outputs[3].numpy().all() and not calls.ok(outputs[0]).numpy()
    with pytest.raises(error, match=text):
        env.check()


def test_unknown_handles_and_other_shapes_are_errors_with_the_handle(make, on_gpu):
    env = make(fault_envs(None, 4), 2)
    calls = on_gpu(env)
    with pytest.raises(GpuError, match=f"tfab:shape:{env.hub}"):
        calls.step([np.int32(0), ZEROS[:3]])
    calls.handle = 10**9
    with pytest.raises(GpuError, match="tfab:unknown:1000000000"):
        calls.init(1)


@pytest.mark.parametrize(
    "function",
    [
        "cuStreamGetCtx",
        "cuEventCreate",
        "cuMemHostAlloc",
        "cuMemcpyDtoHAsync_v2",
        "cuStreamSynchronize",
        "cuMemcpyHtoDAsync_v2",
        "cuMemsetD8Async",
        "cuMemsetD32Async",
        "cuEventRecord",
    ],
)
def test_a_failed_call_of_the_driver_is_an_error_that_names_it(
    make, on_gpu, driver, function
):
    env, other = (make(fault_envs(None, 1), 1) for _ in range(2))
    calls = on_gpu(env)
    driver.fail(function)
    text = f"tfab:cuda:{env.hub}: the GPU cannot step environments: {function} failed"
    with pytest.raises(GpuError, match=f"{text} with CUDA_ERROR_ILLEGAL_ADDRESS"):
        calls.init(3)
    driver.fail(function, 12345)
    with pytest.raises(GpuError, match=f"{text} with 12345"):
        calls.init(3)
    driver.fail(function, 0)
    actions = [[ZEROS[:1]]] * 2
    found, expected = (rollout(each, actions) for each in (calls, CpuCalls(other)))
    assert_equal([x[1:] for x in found], [x[1:] for x in expected])


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/nonexistent/libcuda.so.1", "cannot open"),
        ("libm.so.6", "libm.so.6 has no cu"),
    ],
)
def test_an_unusable_driver_is_named(backend, library, compiled_driver, path, text):
    assert text in library.tfab_cuda_driver(path.encode()).decode()


def test_programs_can_be_compiled_for_both_devices(make_process_env):
    env = make_process_env(fault_envs(None), 1)
    graph = (
        tf.function(lambda: env.init(1)[0], autograph=False)
        .get_concrete_function()
        .graph
    )
    (call,) = (x for x in graph.get_operations() if x.type == "XlaCallModule")
    assert call.get_attr("platforms") == [b"CPU", b"CUDA"]
