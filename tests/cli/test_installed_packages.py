"""Packages as installers lay them out, and those only a release opens: what flags are for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import RunCommand


@pytest.fixture
def installed(ortpkg: RunCommand, tmp_path: Path, model: Callable[..., Path]) -> Path:
    """A package whose only variant lies beside it."""
    root = tmp_path / "p.ortpackage"
    assert ortpkg("create", root, "--cpu", model(), "--format", "component").code == 0
    (root / "models/model/double").rename(tmp_path / "elsewhere")
    path = root / "models/model/component.json"
    component = json.loads(path.read_bytes())
    component["variants"]["double"]["variant_directory"] = "../../../elsewhere"
    path.write_text(json.dumps(component))
    manifest = json.loads((root / "manifest.json").read_bytes())
    (root / "manifest.json").write_text(json.dumps(manifest | {"layout": "installed"}))
    (root / "digests.json").unlink()
    return root


@pytest.mark.requirement("K17")
@pytest.mark.parametrize("command", ["inspect", "validate", "select"])
def test_paths_out_of_an_installed_package_are_followed_on_request_only(
    ortpkg: RunCommand, installed: Path, command: str
) -> None:
    refused = ortpkg(command, installed)
    assert refused.code == 4
    assert "ORT008" in refused.out + refused.err

    followed = ortpkg(command, installed, "--allow-external-paths", "--json")

    assert followed.code == 0, followed.err
    if command == "inspect":
        (component,) = followed.json["component_models"]
        assert component["variants"][0]["directory"] == str(installed.parent / "elsewhere")


@pytest.mark.parametrize("command", ["inspect", "validate", "select"])
def test_a_package_that_only_the_release_opens_is_opened_by_its_rules(
    ortpkg: RunCommand, tmp_path: Path, model: Callable[..., Path], command: str
) -> None:
    root = tmp_path / "p.ortpackage"
    assert ortpkg("create", root, "--gpu", model(), "--format", "component").code == 0
    text = (root / "manifest.json").read_text()
    # a key twice
    (root / "manifest.json").write_text(text.replace("{", '{"schema_version": "1.0",', 1))
    (root / "digests.json").unlink()
    assert ortpkg(command, root).code == 4

    done = ortpkg(
        command,
        root,
        "--compat",
        "onnxruntime-1.31",
        *(["--policy", "prefer-gpu"] * (command == "select")),
    )

    assert "ORT004" not in done.out + done.err
    assert done.code in ((0, 3) if command == "select" else (0,)), done.err
