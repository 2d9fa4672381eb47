"""The NVIDIA driver, played by small libraries with the functions of the real one."""

import os
import shutil
import subprocess

import pytest

from tfagents_batch.devices import nvidia
from tfagents_batch.devices.nvidia import Driver, Gpu, Process

CUDA = """
int cuInit(unsigned flags) { return STATUS; }
int cuDriverGetVersion(int* number) { *number = 12080; return 0; }
int cuDeviceGetCount(int* count) { *count = 2; return 0; }
int cuGetErrorString(int status, const char** text) { *text = "mismatch"; return 0; }
"""
NVML = """
#include <string.h>
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned pid; unsigned long long used; unsigned g, c; } Process;
int nvmlInit_v2(void) { return STATUS; }
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  strncpy(text, "570.86.10", size); return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = (void*)(0x7f0000000000ULL + index); return 0;
}
static int number(void* device) { return (unsigned long long)device & 0xff; }
int nvmlDeviceGetName(void* device, char* text, unsigned size) {
  strncpy(text, number(device) ? "second" : "first", size); return 0;
}
int nvmlDeviceGetCudaComputeCapability(void* device, int* major, int* minor) {
  *major = 8; *minor = number(device) ? 9 : 0; return 0;
}
int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  memory->total = 24ULL << 30; memory->free = 1ULL << 33; memory->used = 1ULL << 34;
  return 0;
}
#ifndef OLD
int nvmlDeviceGetComputeRunningProcesses_v3(
    void* device, unsigned* count, Process* found) {
  if (number(device)) { *count = 0; return 0; }
  if (*count < 2) return 7;
  *count = 2;
  found[0] = (Process){PID, 1ULL << 34, 0, 0};
  found[1] = (Process){0x7fffffff, ~0ULL, 0, 0};
  return 0;
}
#endif
"""


@pytest.fixture
def library(tmp_path):
    """Return a function that compiles a library and returns its path."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")

    def compiled(source, *flags):
        code, path = tmp_path / "code.c", tmp_path / f"{len(os.listdir(tmp_path))}.so"
        code.write_text(source)
        command = [compiler, "-shared", "-fPIC", "-o", path, code]
        subprocess.run([*command, *(f"-D{flag}" for flag in flags)], check=True)
        return str(path)

    return compiled


@pytest.fixture
def driver(library, monkeypatch):
    """Return a function that installs libraries of a driver, or none."""

    def installed(cuda=None, nvml=None):
        """Each is the definitions that its library is compiled with."""
        for name, source, flags in (("CUDA", CUDA, cuda), ("NVML", NVML, nvml)):
            path = library(source, *flags) if flags else "no-such.so"
            monkeypatch.setattr(nvidia, name, path)

    return installed


@pytest.mark.parametrize(
    ("cuda", "nvml", "expected"),
    [
        (0, 0, Driver("570.86.10", (12, 8), visible=2)),
        (0, None, Driver("", (12, 8), visible=2)),
        (0, 9, Driver("", (12, 8), visible=2)),
        (100, None, Driver("", (12, 8), visible=0)),  # all GPUs are hidden
        (803, None, Driver("", (12, 8), visible=0, error="mismatch")),
    ],
)
def test_the_driver_says_its_versions_number_of_gpus_and_error(
    driver, cuda, nvml, expected
):
    driver([f"STATUS={cuda}"], nvml is not None and [f"STATUS={nvml}", "OLD"])
    assert nvidia.driver() == expected
    assert nvidia.installed()


def test_no_driver_is_installed_if_its_library_is_missing(driver):
    driver()
    assert nvidia.driver() is None
    assert not nvidia.installed()


def test_each_gpu_has_its_memory_and_processes(driver):
    driver(nvml=["STATUS=0", f"PID={os.getpid()}"])
    first, second = nvidia.gpus()
    assert first[:4] == ("first", (8, 0), 24 << 30, 8 << 30)
    own, hidden = first.processes
    assert (own.pid, own.used) == (os.getpid(), 16 << 30)
    assert own.name != ""
    assert hidden == Process(0x7FFFFFFF, "", None)
    assert second == Gpu("second", (8, 9), 24 << 30, 8 << 30)


def test_an_old_driver_names_no_processes(driver):
    driver(nvml=["STATUS=0", "OLD"])
    assert nvidia.gpus()[0].processes == ()


@pytest.mark.parametrize("nvml", [None, ["STATUS=9", "OLD"]])
def test_without_nvml_no_gpu_is_described(driver, nvml):
    driver(nvml=nvml)
    assert nvidia.gpus() == ()
