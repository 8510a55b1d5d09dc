"""OpenVINO is loaded without the package that sends; the program's copy of it is put back."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import pytest

pytest.importorskip("openvino")


def test_the_package_that_sends_cannot_be_imported_meanwhile_and_is_as_it_was_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ortpkg.runtime.providers import quiet_openvino

    own = {
        name: ModuleType(name)
        for name in ("openvino_telemetry", "openvino_telemetry.backend", "openvino_other")
    }
    for name, module in own.items():
        monkeypatch.setitem(sys.modules, name, module)
    with quiet_openvino._without_telemetry():
        assert sys.modules["openvino_other"] is own["openvino_other"]
        for name in ("openvino_telemetry", "openvino_telemetry.backend"):
            with pytest.raises(ImportError):
                importlib.import_module(name)
    assert {name: sys.modules.get(name) for name in own} == own


def test_a_package_that_nobody_imported_is_left_to_be_imported() -> None:
    from ortpkg.runtime.providers import quiet_openvino

    before = sys.modules.copy()
    with pytest.raises(ValueError, match="OpenVINO"), quiet_openvino._without_telemetry():
        raise ValueError("OpenVINO")
    assert sys.modules == before
