"""add_variant, remove_variant in every form of package: form, order and unknown keys stay."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ortpkg.authoring.convert import convert
from ortpkg.authoring.create import add_variant, create, init_package, remove_variant
from ortpkg.authoring.new_variant import NewVariant
from ortpkg.authoring.package_checks import validate
from ortpkg.foundations.errors import AuthoringError, Severity
from ortpkg.package.package_info import Constraints, PackageFormat
from ortpkg.package.reader import open_package
from tests.authoring.conftest import ModelMaker
from tests.package.failing_operations import content_of

FORMS = list(PackageFormat)


def read(path: Path) -> Any:
    return json.loads(path.read_bytes())


def write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n")


def errors_of(root: Path) -> list[str]:
    return [str(each) for each in validate(root) if each.severity is Severity.ERROR]


def component_package(root: Path, model: Path, *, declared: str) -> Path:
    """A foreign package of the component generation; ``c`` is ``inline`` or at a path."""
    ort = {"ort": {"model_file": "m.onnx"}}
    body = {
        "variants": {"v": {"executor_info": ort, "ep": "CPUExecutionProvider"}},
        "component_name": "c",
    }
    value: Any = body
    base = root
    if declared != "inline":
        value = declared
        document = root / declared
        document = document if document.suffix else document / "component.json"
        write(document, body)
        base = document.parent
    write(
        root / "manifest.json",
        {"components": {"c": value}, "schema_version": "1.0", "package_name": "p"},
    )
    (base / "v").mkdir()
    shutil.copy(model, base / "v/m.onnx")
    return root


@pytest.mark.parametrize(
    ("declared", "document", "folder"),
    [
        ("inline", "manifest.json", "models/c/b"),
        ("parts/any.json", "parts/any.json", "parts/b"),
        ("./parts/c/", "parts/c/component.json", "parts/c/b"),
        ("root.json", "root.json", "models/c/b"),
    ],
)
def test_a_variant_joins_a_component_wherever_it_is_declared(
    tmp_path: Path, make_model: ModelMaker, declared: str, document: str, folder: str
) -> None:
    root = component_package(tmp_path / "p", make_model("a"), declared=declared)
    before = content_of(root)

    info = add_variant(root, make_model("b"), component="c", ep="cuda", device="gpu")
    added = info.components[0].variants[1]
    assert added.model_path == info.root / folder / "b.onnx"
    assert added.constraints == Constraints(ep="CUDAExecutionProvider", device="gpu")
    assert added.metadata["data_types"] == ("float",)
    assert errors_of(root) == []
    changed = {path for path, content in content_of(root).items() if before.get(path) != content}
    assert changed == {document, f"{folder}/b.onnx", "digests.json"}

    remove_variant(root, "b", component="c")
    after = content_of(root)
    assert {path: after[path] for path in before} == before
    assert set(after) - set(before) == {"digests.json"}


@pytest.mark.parametrize("declared", ["inline", "parts/any.json", "root.json"])
def test_the_last_variant_takes_only_its_own_component_along(
    tmp_path: Path, make_model: ModelMaker, declared: str
) -> None:
    root = component_package(tmp_path / "p", make_model("a"), declared=declared)
    (root / "notes.txt").write_text("mine")
    add_variant(root, make_model("b"), component="second", ep="cpu")

    info = remove_variant(root, "v", component="c")

    assert [each.name for each in info.components] == ["second"]
    assert (root / "notes.txt").is_file()
    assert not list(root.rglob("m.onnx"))
    assert errors_of(root) == []


@pytest.mark.parametrize("form", FORMS)
def test_another_component_keeps_the_format(
    tmp_path: Path, make_model: ModelMaker, form: PackageFormat
) -> None:
    root = init_package(tmp_path / "p", form=form).root
    for name in ("encoder", "decoder"):
        info = add_variant(root, make_model(name), component=name, ep="cpu")

    assert info.format is form
    assert [each.name for each in info.components] == ["encoder", "decoder"]
    assert [value.name for value in info.inputs] == ["x"]
    assert errors_of(root) == []


@pytest.mark.parametrize("form", FORMS)
def test_unknown_keys_and_their_order_survive(
    tmp_path: Path, make_model: ModelMaker, form: PackageFormat
) -> None:
    root = create(tmp_path / "p", [NewVariant.for_cpu(make_model("a"))], form=form).root
    document = (
        root
        / "models/model"
        / ("component.json" if form is PackageFormat.COMPONENT else "metadata.json")
    )
    value = {"additional_metadata": {"mine": [1, {"é": None}]}} | read(document)
    write(document, value)
    before = json.dumps(value)

    add_variant(root, make_model("b"), ep="cuda")
    remove_variant(root, "b")

    assert json.dumps(read(document)) == before


def test_refuses_a_change_that_would_need_two_documents_at_once(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    root = create(tmp_path / "p", [NewVariant.for_cpu(make_model("a"))]).root
    metadata = read(root / "models/model/metadata.json")
    write(root / "models/model/newer.json", {"variants": metadata.pop("variants")})
    write(root / "models/model/metadata.json", metadata)
    manifest = read(root / "manifest.json")
    manifest["components"]["model"] = "models/model/newer.json"
    write(root / "manifest.json", manifest)
    assert open_package(root).format is PackageFormat.UNIVERSAL

    with pytest.raises(
        AuthoringError,
        match=r"are listed in two documents, .* bring them together with ortpkg convert",
    ):
        add_variant(root, make_model("b"), ep="cuda")
    (root / "digests.json").unlink()
    convert(root, "universal", notify=lambda _: None)
    assert not (root / "models/model/newer.json").exists()
    assert len(add_variant(root, make_model("b"), ep="cuda").components[0].variants) == 2


def test_refuses_a_component_on_its_own(tmp_path: Path, make_model: ModelMaker) -> None:
    root = (
        create(tmp_path / "p", [NewVariant.for_cpu(make_model("a"))], form="metadata").root
        / "models/model"
    )

    with pytest.raises(
        AuthoringError, match=r"is a component model on its own, without manifest\.json"
    ):
        add_variant(root, make_model("b"), ep="cuda")


def test_refuses_session_options_that_would_close_the_package(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    root = create(tmp_path / "p", [NewVariant.for_cpu(make_model("a"))]).root
    before = content_of(root)
    folder = "session.model_external_initializers_file_folder_path"

    for options, message in (
        ({"session.enable_profiling": "1"}, "writes a file: onnxruntime 1.31 refuses"),
        ({folder: "weights"}, "there is no folder 'weights' beside the model"),
        ({"ep.context_file_path": "../x"}, "'../x'"),
    ):
        with pytest.raises(AuthoringError, match=message):
            add_variant(root, make_model("b"), ep="cuda", session_options=options)
    assert content_of(root) == before
