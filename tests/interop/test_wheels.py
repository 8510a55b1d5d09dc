"""A release that cannot be had fails the run, and says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop import wheels
from tests.interop.wheels import WheelUnavailableError

pytestmark = pytest.mark.interop


@pytest.fixture
def empty_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No wheel is there, and pip asks no index."""
    monkeypatch.setattr(wheels, "WHEELS", tmp_path / "wheels")
    for variable in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "no-pip.conf"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return tmp_path / "wheels"


@pytest.mark.usefixtures("empty_wheels")
def test_release_that_was_not_fetched_is_an_error() -> None:
    with pytest.raises(
        WheelUnavailableError, match=r"onnxruntime 1\.26\.0: .* found none; run make interop"
    ):
        wheels.library_of("1.26.0")


@pytest.mark.usefixtures("empty_wheels")
def test_release_without_a_wheel_is_an_error_that_names_interpreter_and_reason() -> None:
    with pytest.raises(
        WheelUnavailableError,
        match=r"onnxruntime 1\.26\.0 has no wheel for Python 3\.\d+ on .*: ERROR",
    ):
        wheels.fetch("1.26.0")


def test_installed_release_needs_no_wheel() -> None:
    assert wheels.library_of(wheels.installed_release()).is_file()
