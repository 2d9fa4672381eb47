"""Tests of faster imports."""

import gc
import os
import subprocess
import sys
import types

import pytest

import tfagents_batch as tfb
from tfagents_batch import importing
from tfagents_batch.errors import UserError


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_is_disabled_and_restored(enabled):
    (gc.enable if enabled else gc.disable)()
    try:
        with pytest.raises(ZeroDivisionError), importing.uncollected():
            assert not gc.isenabled()
            raise ZeroDivisionError
        assert gc.isenabled() is enabled
    finally:
        gc.enable()


def test_a_hidden_package_seems_not_installed_inside_the_context(monkeypatch):
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with importing.hidden("colorsys", "gc"):
        with pytest.raises(ImportError):
            import colorsys
        import gc as present  # it was imported before
    import colorsys

    assert colorsys and present is gc


def test_training_in_one_process_needs_no_module_that_windows_lacks(tmp_path):
    missing = ["fcntl", "resource", "termios", "tty", "pty", "pwd", "grp"]
    program = f"""
import sys
sys.modules |= dict.fromkeys({missing})
from tfagents_batch import __main__
flags = "--env=CartPole-v1 --num_workers=0 --num_envs=2 --steps=512 --eval_every=0"
sys.argv = ["", "train", *flags.split(), sys.argv[1]]
__main__.main()
"""
    command = [sys.executable, "-c", program, f"--logdir={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert [*tmp_path.glob("*/checkpoints/step-*")]


@pytest.mark.parametrize("name", ["jax", "torch", "numpy"])
def test_another_keras_backend_is_an_error_that_names_the_setting(name, monkeypatch):
    monkeypatch.delitem(sys.modules, "keras", raising=False)
    monkeypatch.setenv("KERAS_BACKEND", name)
    with pytest.raises(UserError, match=rf"KERAS_BACKEND is '{name}'; expected 'tens"):
        tfb.train  # noqa: B018
    assert tfb.UserError is UserError  # by which it is caught


def test_keras_that_was_imported_with_another_backend_is_an_error(monkeypatch):
    backend = types.SimpleNamespace(backend=lambda: "jax")
    monkeypatch.setitem(sys.modules, "keras", types.SimpleNamespace(config=backend))
    with pytest.raises(UserError, match="Keras was imported with 'jax'"):
        tfb.train  # noqa: B018


@pytest.mark.parametrize("chosen", [None, "0"])
def test_defaults_of_the_environment_hold_unless_the_user_chose(monkeypatch, chosen):
    monkeypatch.setattr(importing.platform, "machine", lambda: "x86_64")
    for name, call, default in (
        ("TF_ENABLE_ONEDNN_OPTS", importing.prefer_onednn, "1"),
        ("ORT_DISABLE_TELEMETRY", importing.send_nothing, "1"),
        ("TF_CPP_MIN_LOG_LEVEL", importing.hide_messages, "3"),
    ):
        monkeypatch.delenv(name, raising=False)
        if chosen is not None:
            monkeypatch.setenv(name, chosen)
        call()
        assert os.environ[name] == (chosen or default)


@pytest.mark.parametrize("value", ["off", ""])
def test_one_variable_disables_all_defaults_but_the_backend_of_keras(value, tmp_path):
    """Unless disabled, TensorFlow is imported and compiles without messages."""
    (tmp_path / "keras.json").write_text('{"backend": "jax"}')
    script = """
import os, sys
before = dict(os.environ), [*sys.meta_path]
import tfagents_batch as tfb
same = before == (dict(os.environ), sys.meta_path)
tfb.train  # imports TensorFlow
import keras, tensorflow as tf
tf.function(lambda x: 2 * x, jit_compile=True)(tf.ones([3]))
print(same, keras.backend.backend(), os.environ.get("KERAS_BACKEND"))
"""
    names = "TF_ENABLE_ONEDNN_OPTS", "ORT_DISABLE_TELEMETRY", "TF_CPP_MIN_LOG_LEVEL"
    names += ("KERAS_BACKEND",)
    environment = {k: x for k, x in os.environ.items() if k not in names}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment | {"KERAS_HOME": str(tmp_path), importing.VARIABLE: value},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == f"{value == 'off'} tensorflow None\n", done.stderr
    assert value == "off" or done.stderr == ""


DISPLAYS = "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "SDL_VIDEODRIVER"


@pytest.mark.skipif(sys.platform != "linux", reason="SDL looks for displays otherwise")
def test_pygame_starts_in_silence_without_a_display():
    pytest.importorskip("pygame")
    hidden = *DISPLAYS, "SDL_AUDIODRIVER"
    environment = {k: x for k, x in os.environ.items() if k not in hidden}
    script = "import tfagents_batch, pygame; pygame.init()"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("name", DISPLAYS)
def test_a_display_or_a_chosen_driver_is_kept(monkeypatch, name):
    for each in (*DISPLAYS, "SDL_AUDIODRIVER"):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv(name, "x11")
    importing.draw_without_display()
    assert os.environ.get("SDL_VIDEODRIVER") == ("x11" if "SDL" in name else None)
    assert "SDL_AUDIODRIVER" not in os.environ


def stderr_of(script):
    environment = {k: x for k, x in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_messages_end_where_the_package_is_imported_after_tensorflow():
    script = """
import sys
import tensorflow as tf
print("---", file=sys.stderr, flush=True)
import tfagents_batch
tf.function(lambda x: 2 * x, jit_compile=True)(tf.ones([3]))
"""
    assert stderr_of(script).partition("---\n")[2] == ""


def test_keras_imports_tensorflow_without_its_messages_after_the_package():
    script = "import tfagents_batch; import keras; keras.ops.ones([3])"
    assert stderr_of(script) == ""


def test_only_messages_of_others_are_written_after_the_import(monkeypatch, capfd):
    monkeypatch.delitem(sys.modules, "tensorflow")
    lines = b"I0000 00:00:1.5 1 a.cc:1] x\nWarning: from another package\n"
    with importing.without_messages():
        os.write(2, lines)
        assert capfd.readouterr().err == ""
    assert capfd.readouterr().err == "Warning: from another package\n"
    with pytest.raises(ImportError), importing.without_messages():
        os.write(2, lines)
        raise ImportError
    assert capfd.readouterr().err == lines.decode()
    with pytest.raises(KeyboardInterrupt), importing.without_messages():
        os.write(2, lines)
        raise KeyboardInterrupt
    assert capfd.readouterr().err == "Warning: from another package\n"


def test_the_import_works_without_stderr():
    script = "import tfagents_batch as tfb; assert tfb.UserError; print('fine')"
    done = subprocess.run(
        ["sh", "-c", f'{sys.executable} -c "$0" 2>&-', script],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == "fine\n"
