"""CUDA's libraries and compiler are found where TensorFlow and XLA find them."""

import shutil
import subprocess
from pathlib import Path

import pytest
import tensorflow as tf

from tfagents_batch.devices import cuda
from tfagents_batch.devices.cuda import Compiler, Libraries

LIBRARY = """
#include <stddef.h>
int cudaRuntimeGetVersion(int* number) { *number = 12090; return 0; }
size_t cudnnGetVersion(void) { return 91002; }
"""


@pytest.fixture
def tensorflow(tmp_path):
    """Return the folder of a TensorFlow that is not there, in an environment."""
    return tmp_path / "environment/lib/python3/site-packages/tensorflow"


@pytest.fixture
def no_system(monkeypatch, tmp_path):
    """Hide the libraries and the CUDA of this machine."""
    load, roots = cuda.ctypes.CDLL, cuda._roots

    def found(name):
        if "/" not in name:
            raise OSError(f"{name}: cannot open shared object file: No such file")
        return load(name)

    def inside(folder):
        return [each for each in roots(folder) if tmp_path in each.parents]

    monkeypatch.setattr(cuda.ctypes, "CDLL", found)
    monkeypatch.setattr(cuda, "_roots", inside)
    monkeypatch.chdir(tmp_path)


def install(tensorflow, names, *flags):
    """Compile libraries into the folders of NVIDIA's pip packages."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    for name, package in names.items():
        path = tensorflow.parent / "nvidia" / package / "lib" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        command = [compiler, "-shared", "-fPIC", "-xc", "-", "-o", path, *flags]
        subprocess.run(command, input=LIBRARY, text=True, check=True)


def ptxas(folder, version):
    """Write a compiler that prints its version, and return its path."""
    folder.mkdir(parents=True)
    path = folder / "ptxas"
    path.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, V{version}'\n")
    path.chmod(0o755)
    return str(path)


def test_libraries_of_pip_packages_are_found_with_their_versions(tensorflow, no_system):
    install(tensorflow, cuda.LIBRARIES)
    assert cuda.libraries(tensorflow) == Libraries((), (12, 9), (9, 10, 2))


def test_libraries_that_are_nowhere_are_missing(tensorflow, no_system):
    assert cuda.libraries(tensorflow) == Libraries(tuple(sorted(cuda.LIBRARIES)))


def test_the_runtime_of_another_cuda_version_is_reported(tensorflow, no_system):
    install(tensorflow, {"libcudart.so.13": "cu13"})
    found = cuda.libraries(tensorflow)
    assert found.other == "libcudart.so.13"
    assert found.missing == tuple(sorted(cuda.LIBRARIES))


def test_the_missing_file_is_the_one_that_a_library_needs(tensorflow, no_system):
    install(tensorflow, cuda.LIBRARIES)
    name = "libnvJitLink.so.12"
    install(tensorflow, {name: "nvjitlink"}, f"-Wl,-soname,{name}")
    link = tensorflow.parent / "nvidia/nvjitlink/lib" / name
    needs = "-Wl,--no-as-needed", "-xnone", link
    install(tensorflow, {"libcusolver.so.11": "cusolver"}, *needs)
    link.unlink()
    assert cuda.libraries(tensorflow).missing == ("libnvJitLink.so.12",)


def test_the_folder_of_xla_flags_comes_first(tensorflow, no_system, tmp_path):
    preferred = ptxas(tmp_path / "cuda/bin", "12.8.61")
    ptxas(tmp_path / "bin", "12.9.86")
    code = tmp_path / "cuda/nvvm/libdevice/libdevice.10.bc"
    code.parent.mkdir(parents=True)
    code.touch()
    flags = f"--xla_dump_to=x --xla_gpu_cuda_data_dir={tmp_path}/cuda"
    environment = {"XLA_FLAGS": flags, "PATH": str(tmp_path / "bin")}
    found = cuda.compiler(tensorflow, environment)
    assert found == Compiler(preferred, (12, 8, 61), str(code))


def test_the_path_comes_before_the_pip_package(tensorflow, no_system, tmp_path):
    package = tensorflow.parent / "nvidia/cuda_nvcc"
    in_package = ptxas(package / "bin", "12.9.86")
    assert cuda.compiler(tensorflow, {}).ptxas == in_package
    in_path = ptxas(tmp_path / "bin", "12.6.20")
    assert cuda.compiler(tensorflow, {"PATH": str(tmp_path / "bin")}).ptxas == in_path


@pytest.mark.parametrize("version", ["11.2.67", "12.3.103", "unknown"])
def test_a_ptxas_that_xla_refuses_is_not_found(
    tensorflow, no_system, tmp_path, version
):
    ptxas(tmp_path / "bin", version)
    found = cuda.compiler(tensorflow, {"PATH": str(tmp_path / "bin")})
    assert found == Compiler()


def test_libdevice_of_a_conda_environment_is_found(tensorflow, no_system, tmp_path):
    code = tmp_path / "environment/nvvm/libdevice/libdevice.10.bc"
    code.parent.mkdir(parents=True)
    code.touch()
    assert cuda.compiler(tensorflow, {}).libdevice == str(code)


def test_the_build_is_that_of_the_installed_tensorflow():
    folder = cuda.folder()
    found = cuda.build(folder)
    info = tf.sysconfig.get_build_info()
    assert folder == Path(tf.__file__).parent
    assert found == (tf.__version__, info["cuda_version"], info["cudnn_version"])
