"""Lines about GPUs, from the facts of machines that are not here."""

import pytest

from tfagents_batch.devices import cuda, gpu_remarks, nvidia
from tfagents_batch.devices.cuda import Build, Compiler, Libraries
from tfagents_batch.devices.gpu_remarks import GpuFacts
from tfagents_batch.devices.nvidia import Driver, Gpu, Process

GIB = 2**30
BUILD = Build("2.21.0", "12.5.1", "9")
DRIVER = Driver("580.65.06", (13, 0), visible=1)
H100 = Gpu("NVIDIA H100", (9, 0), 80 * GIB, 79 * GIB)
FOUND = Libraries((), (12, 9), (9, 10, 2))
MISSING = Libraries(tuple(cuda.LIBRARIES))
WORKS = GpuFacts(DRIVER, (H100,), None, BUILD, FOUND, seen=1)
UNSEEN = WORKS._replace(seen=0)
INSTALL = 'pip install "tensorflow[and-cuda]==2.21.0"'


def test_a_machine_where_all_is_fine_gets_no_advice():
    lines = [
        gpu_remarks.driver_line(DRIVER, None),
        gpu_remarks.gpus_line((H100, H100)),
        gpu_remarks.library_line(BUILD, FOUND, seen=1),
        gpu_remarks.compiler_line(
            BUILD, Compiler("/bin/ptxas", (12, 9, 86), "/libdevice")
        ),
    ]
    assert [line.advice for line in lines] == [""] * 4
    driver, gpus, libraries, compiler = (line.text for line in lines)
    assert driver == "580.65.06, for CUDA up to 13.0; GPUs: 1"
    one = "NVIDIA H100, compute capability 9.0, 79.00 GiB of 80.00 GiB free"
    assert gpus == f"0: {one}\n1: {one}"
    assert "built for CUDA 12.5.1 and cuDNN 9; it finds CUDA 12.9" in libraries
    assert libraries.endswith("cuDNN 9.10.2")
    assert compiler.startswith("ptxas 12.9.86: /bin/ptxas")
    assert gpu_remarks.why_unseen(WORKS) == ""


@pytest.mark.parametrize(
    ("facts", "text", "advice"),
    [
        (
            UNSEEN._replace(driver=None),
            "no NVIDIA driver (libcuda.so.1)",
            "install one",
        ),
        (UNSEEN._replace(libraries=MISSING), "libcudnn.so.9", INSTALL),
        (
            UNSEEN._replace(libraries=MISSING._replace(other="libcudart.so.13")),
            "libcudart.so.13 is of another CUDA version and no substitute",
            INSTALL,
        ),
        (
            UNSEEN._replace(libraries=FOUND._replace(cudnn=(9, 1, 0))),
            "cuDNN 9.1.0, but needs cuDNN 9.3 or newer",
            INSTALL,
        ),
        (
            UNSEEN._replace(driver=Driver("470.82.01", (11, 4), visible=1)),
            "NVIDIA driver 470.82.01, for CUDA up to 11.4; TensorFlow needs 12.0",
            "install NVIDIA driver 525.60.13 or newer",
        ),
        (
            UNSEEN._replace(driver=DRIVER._replace(visible=0), hidden="-1"),
            "CUDA_VISIBLE_DEVICES='-1' hides every GPU",
            "unset CUDA_VISIBLE_DEVICES",
        ),
        (
            UNSEEN._replace(
                driver=DRIVER._replace(visible=0, error="system driver mismatch"),
                hidden="0",
            ),
            "it finds no GPU: system driver mismatch",
            "restart the machine",
        ),
        (
            UNSEEN._replace(driver=DRIVER._replace(visible=0)),
            "it finds no GPU: none is installed",
            "--gpus=all",
        ),
        (
            UNSEEN._replace(build=Build("2.21.0", "", "")),
            "TensorFlow 2.21.0 is built without CUDA",
            INSTALL,
        ),
        (
            UNSEEN._replace(gpus=(Gpu("Tesla K80", (3, 7), 12 * GIB, 12 * GIB),)),
            "compute capability 3.7, 12.00 GiB of 12.00 GiB free; TensorFlow needs 6.0",
            "use another GPU",
        ),
        (UNSEEN, "but sees no GPU", "TF_CPP_MAX_VLOG_LEVEL=1"),
    ],
)
def test_one_line_says_why_tensorflow_sees_no_gpu_and_what_to_do(facts, text, advice):
    line = gpu_remarks.why_unseen(facts)
    assert text in line
    assert advice in line
    assert "\n" not in line


def test_a_gpu_filled_by_a_process_names_it_and_its_memory():
    users = Process(42, "python", 79 * GIB), Process(7, "", None)
    line = gpu_remarks.gpu_line(H100._replace(free=GIB // 2, processes=users))
    assert "512.0 MiB of 80.00 GiB free" in line.text
    assert "used by process 42 (python): 79.00 GiB, process 7" in line.text
    assert line.advice.startswith("end the processes that use it, or choose another")


def test_a_process_that_leaves_enough_memory_is_no_problem():
    shared = H100._replace(free=40 * GIB, processes=(Process(42, "x", 40 * GIB),))
    line = gpu_remarks.gpu_line(shared)
    assert "process 42" in line.text
    assert line.advice == ""


def test_a_gpu_without_machine_code_in_tensorflow_starts_slowly():
    line = gpu_remarks.gpu_line(H100._replace(capability=(12, 0)))
    assert "no machine code" in line.text
    assert "slow first start" in line.advice


def test_advice_about_one_of_several_gpus_begins_with_its_number():
    line = gpu_remarks.gpus_line((H100, H100._replace(free=0)))
    assert line.advice.startswith("1: end")
    assert "\n" not in line.advice


def test_gpus_that_the_driver_does_not_describe_are_unknown():
    assert nvidia.NVML in gpu_remarks.gpus_line(()).text


@pytest.mark.parametrize("part", ["ptxas", "libdevice"])
def test_xla_needs_ptxas_and_libdevice(part):
    compiler = Compiler("/bin/ptxas", (12, 9, 86), "/x/libdevice.10.bc")
    line = gpu_remarks.compiler_line(BUILD, compiler._replace(**{part: ""}))
    assert line.text.count("not found") == 1
    assert line.advice.startswith(INSTALL)
    assert "--xla_gpu_cuda_data_dir" in line.advice


def test_this_machine_has_a_problem_exactly_if_tensorflow_sees_no_gpu():
    facts = gpu_remarks.facts()
    assert facts.build.version.startswith("2.21")
    assert (gpu_remarks.problem() == "") == (facts.seen > 0)
