"""create, init, add-variant, remove-variant and validate, as a publisher uses them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import RunCommand

MakeModel = Callable[..., Path]


def tree(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def test_three_files_become_a_package_that_validates(
    ortpkg: RunCommand, model: MakeModel, tmp_path: Path
) -> None:
    package = tmp_path / "p.ortpackage"
    files = [model(f"{device}.onnx") for device in ("c", "g", "n")]
    done = ortpkg("create", package, "--cpu", files[0], "--gpu", files[1], "--npu", files[2])
    assert (done.code, done.out) == (0, "")
    assert "component model model: c, g, n" in done.err
    assert ortpkg("validate", package).code == 0
    listed = ortpkg("inspect", package, "--json").json
    (component,) = listed["component_models"]
    assert [
        (v["name"], v["constraints"]["ep"], v["constraints"]["device"])
        for v in component["variants"]
    ] == [
        ("c", "CPUExecutionProvider", "cpu"),
        ("g", None, "gpu"),
        ("n", None, "npu"),
    ]
    assert [value["name"] for value in listed["inputs"]] == ["x"]


def test_a_model_file_that_does_not_exist_is_named(
    ortpkg: RunCommand, model: MakeModel, tmp_path: Path
) -> None:
    there = model("digits.onnx")
    done = ortpkg("create", there.with_name("digit.onnx"))
    assert done.code != 0
    assert "digit.onnx" in done.err
    assert "did you mean" in done.err
    assert "digits.onnx" in done.err
    assert ortpkg("create", tmp_path / "empty.ortpackage").err.startswith("error: no model was")


def test_an_execution_provider_can_be_named_by_alias(
    ortpkg: RunCommand, model: MakeModel, tmp_path: Path
) -> None:
    package = tmp_path / "p.ortpackage"
    done = ortpkg(
        "create",
        package,
        "--cpu",
        model("c.onnx"),
        "--variant",
        f"openvino:npu={model('n.onnx')}",
        "--json",
    )
    assert done.code == 0
    variant = done.json["component_models"][0]["variants"][1]
    assert variant["constraints"]["ep"] == "OpenVINOExecutionProvider"
    assert variant["constraints"]["device"] == "npu"


def test_init_then_add_variant_makes_a_package(
    ortpkg: RunCommand, model: MakeModel, tmp_path: Path
) -> None:
    package = tmp_path / "p.ortpackage"
    assert ortpkg("init", package, "--name", "scaler").code == 0
    assert ortpkg("validate", package).code == 0
    words = [
        "add-variant",
        package,
        model(),
        "--component",
        "scale",
        "--variant",
        "cpu",
        "--ep",
        "cpu",
    ]
    assert ortpkg(*words).code == 0
    assert ortpkg("validate", package, "--strict").code == 0
    listed = ortpkg("inspect", package, "--json").json
    assert listed["name"] == "scaler"
    assert [component["name"] for component in listed["component_models"]] == ["scale"]


def test_add_variant_extends_the_only_component_of_a_real_package(
    ortpkg: RunCommand, model: MakeModel, tmp_path: Path
) -> None:
    package = tmp_path / "p.ortpackage"
    ortpkg("create", package, "--cpu", model("a.onnx"), "--component", "scale")
    done = ortpkg("add-variant", package, model("b.onnx"), "--ep", "cuda")
    assert (done.code, done.err) == (0, f"added scale/b (CUDAExecutionProvider) to {package}\n")
    assert (
        "component model 'other' is new; the package had 'scale'"
        in ortpkg("add-variant", package, model("c.onnx"), "--ep", "cpu", "-c", "other").err
    )
    refused = ortpkg("add-variant", package, model("d.onnx"))
    assert (refused.code, refused.out) == (2, "")
    assert "2 component models ('scale', 'other'): name one" in refused.err


def test_a_removed_variant_is_gone_with_its_files(
    ortpkg: RunCommand, model: MakeModel, tmp_path: Path
) -> None:
    package = tmp_path / "p.ortpackage"
    ortpkg("create", package, "--cpu", model("a.onnx"), "--gpu", model("b.onnx"))
    before = tree(package)
    assert ortpkg("remove-variant", package, "b").code == 0
    after = tree(package)
    assert not [name for name in after if "/b/" in name]
    assert {n for n in before if before[n] != after.get(n)} == {
        "models/model/b/b.onnx",
        "models/model/metadata.json",
        "digests.json",
    }
    assert ortpkg("validate", package).code == 0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["missing.onnx"], 5, "missing.onnx"),
        (["text.onnx"], 5, "text.onnx"),
        (["wide.onnx"], 4, "cannot stand for"),
        (["double.onnx", "--variant", "double"], 4, "there is a variant 'double' already"),
        (["double.onnx", "--variant", "../escape"], 4, "'../escape'"),
        (["double.onnx", "--variant", "con"], 4, "'con'"),
        (["double.onnx", "--variant", "v", "--device", "gpuu"], 2, "did you mean 'gpu'?"),
        (["double.onnx", "--variant", "v", "--session-option", "novalue"], 2, "write KEY=VALUE"),
    ],
)
def test_a_refused_variant_changes_nothing(
    ortpkg: RunCommand,
    model: MakeModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    code: int,
    message: str,
) -> None:
    package = tmp_path / "p.ortpackage"
    ortpkg("create", package, "--cpu", model())
    model("wide.onnx", input_type="float[N, 3, 1]")
    (tmp_path / "text.onnx").write_text("this is no model", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    before = tree(package)
    done = ortpkg("add-variant", package, *words)
    assert done.code == code, done.err
    assert message in done.err
    assert tree(package) == before


def test_force_accepts_what_differs_and_says_so(
    ortpkg: RunCommand, model: MakeModel, tmp_path: Path
) -> None:
    package = tmp_path / "p.ortpackage"
    ortpkg("create", package, "--cpu", model())
    wide = model("wide.onnx", input_type="float[N, 3, 1]")
    done = ortpkg("add-variant", package, wide, "--force")
    assert done.code == 0
    assert "warning: " in done.err


def test_a_new_package_never_replaces_what_is_there(
    ortpkg: RunCommand, model: MakeModel, tmp_path: Path
) -> None:
    (tmp_path / "p.ortpackage").mkdir()
    (tmp_path / "p.ortpackage" / "mine.txt").write_text("keep me", encoding="utf-8")
    done = ortpkg("create", tmp_path / "p.ortpackage", "--cpu", model())
    assert done.code == 4
    assert tree(tmp_path / "p.ortpackage") == {"mine.txt": b"keep me"}


def test_validate_prints_every_finding_and_exits_with_4(
    ortpkg: RunCommand, model: MakeModel, tmp_path: Path
) -> None:
    package = tmp_path / "p.ortpackage"
    ortpkg("create", package, "--cpu", model("a.onnx"), "--gpu", model("b.onnx"))
    metadata = package / "models" / "model" / "metadata.json"
    document = json.loads(metadata.read_text(encoding="utf-8"))
    document["model_variants"]["a"]["constraints"]["ep"] = 3
    document["model_variants"]["b"]["model_file"] = "../../../../outside.onnx"
    metadata.write_text(json.dumps(document), encoding="utf-8")
    done = ortpkg("validate", package, "--json")
    assert done.code == 4
    pointers = {finding["pointer"] for finding in done.json["findings"]}
    assert "/model_variants/a/constraints/ep" in pointers
    text = ortpkg("validate", package)
    assert text.code == 4
    assert "models/model/metadata.json#/model_variants/a/constraints/ep" in text.out
