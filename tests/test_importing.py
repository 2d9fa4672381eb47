"""Tests of faster imports."""

import gc
import os
import platform
import subprocess
import sys

import pytest

from tfagents_batch import importing


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


@pytest.mark.parametrize("chosen", [None, "0"])
def test_onednn_is_used_unless_the_user_chose(monkeypatch, chosen):
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
    if chosen is not None:
        monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", chosen)
    monkeypatch.setattr(importing.platform, "machine", lambda: "x86_64")
    importing.prefer_onednn()
    assert os.environ["TF_ENABLE_ONEDNN_OPTS"] == (chosen or "1")


@pytest.mark.parametrize("chosen", [None, "0"])
def test_messages_of_tensorflow_are_hidden_unless_the_user_chose(monkeypatch, chosen):
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    if chosen is not None:
        monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", chosen)
    importing.hide_messages()
    assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == (chosen or "3")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="oneDNN is for x86 here")
def test_tensorflow_uses_onednn():
    code = (
        "import tfagents_batch, tensorflow as tf; "
        "from tensorflow.python.util import _pywrap_util_port as port; "
        "print(port.IsMklEnabled())"
    )
    environment = dict(os.environ)
    environment.pop("TF_ENABLE_ONEDNN_OPTS", None)
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert found.stdout == "True\n"
