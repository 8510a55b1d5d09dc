"""The store's commands name the model's version, whatever the tag."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import RunCommand

MakeModel = Callable[..., Path]


@pytest.fixture
def two_versions(
    ortpkg: RunCommand, model: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``p`` 1.0 and then 2.0, both from a layout under the tag ``latest``."""
    monkeypatch.setenv("ORTPKG_STORE", str(tmp_path / "store"))
    root, layout = tmp_path / "p", f"oci-layout:{tmp_path / 'layout'}:latest"
    assert ortpkg("create", root, "--cpu", model(), "--model-version", "1.0").code == 0
    assert ortpkg("push", root, layout).code == 0
    assert ortpkg("install", layout, "--name", "p").code == 0
    assert ortpkg("edit", root, "--model-version", "2.0").code == 0
    assert ortpkg("push", root, layout).code == 0
    assert ortpkg("upgrade", "p").code == 0


def test_list_show_history_and_rollback_name_the_models_version(
    ortpkg: RunCommand, two_versions: None
) -> None:
    del two_versions
    assert "2.0 (latest)" in ortpkg("list").out
    assert ortpkg("list", "--json").json["packages"][0]["version"] == "2.0"
    assert ortpkg("show", "p").out.startswith("p 2.0 (latest)")
    history = ortpkg("history", "p").out
    assert "1.0 (latest)" in history
    assert "2.0 (latest)" in history
    done = ortpkg("rollback", "p")
    assert "p is 1.0 (latest) again, number 1; it was 2.0 (latest), number 2" in (
        " ".join(done.err.split())
    )


def test_add_variant_refuses_a_model_with_other_inputs_as_create_does(
    ortpkg: RunCommand, model: MakeModel, tmp_path: Path
) -> None:
    other = model("other.onnx", input_type="double[N, 3]")
    refused = "variant 'other' cannot stand for 'double': input 'x' has the type 'tensor(double)'"
    done = ortpkg("create", tmp_path / "a", "--cpu", model(), "--cpu", other)
    assert (done.code, refused in done.err) == (4, True)
    assert ortpkg("create", tmp_path / "b", "--cpu", model()).code == 0
    done = ortpkg("add-variant", tmp_path / "b", other)
    assert (done.code, refused in done.err) == (4, True)
