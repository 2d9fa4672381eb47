"""Tests of faster imports."""

import gc
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
