"""An installed plug-in is no unknown execution provider to who makes and checks packages."""

from __future__ import annotations

from pathlib import Path

import pytest

import ortpkg
from ortpkg.package.rules import UNKNOWN_EP
from tests.ep_context.fake_compiler import NAME

_OTHER = "OtherExecutionProvider"


@pytest.mark.parametrize(("ep", "is_known"), [(NAME, True), (_OTHER, False)])
def test_create_and_validate_know_those_that_are_installed(
    machine: Path, model: Path, tmp_path: Path, ep: str, *, is_known: bool
) -> None:
    del machine
    root = tmp_path / "net.ortpackage"
    told: list[str] = []
    ortpkg.create(root, [ortpkg.NewVariant(model=model, name="v", ep=ep)], notify=told.append)
    assert any("is not an execution provider" in each for each in told) is not is_known
    findings = [each for each in ortpkg.validate(root) if each.rule == UNKNOWN_EP.id]
    assert (findings == []) is is_known
