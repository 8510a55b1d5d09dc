"""Packages of Olive 0.13: read as they are, changed by nobody, converted to what others read.

The files are those that olive-ai 0.13.0 wrote of one and of two GenAI folders.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import ortpkg
from ortpkg.authoring.convert import convert
from ortpkg.authoring.create import create
from ortpkg.authoring.edit import PackageEdits, edit
from ortpkg.authoring.merge import merge
from ortpkg.authoring.migration import migrate_check
from ortpkg.authoring.new_variant import NewVariant
from ortpkg.authoring.olive_conversion import merge_patch
from ortpkg.authoring.package_checks import validate
from ortpkg.authoring.slim import slim
from ortpkg.foundations.errors import AuthoringError, PackageFormatError, Severity
from ortpkg.package.package_info import PackageFormat
from ortpkg.package.reader import open_package
from tests.authoring.checks.trees import Tree, model_with_data, write_tree
from tests.authoring.conftest import ModelMaker

#: Words of the error of a command that would have to write such documents.
READ_ONLY = r"a form that Olive 0\.13 alone writes and ortpkg reads only: ortpkg"
_PRODUCER = {"tool": "olive-ai", "tool_version": "0.13.0", "task": "text_generation"}
_BASE = {
    "model": {
        "vocab_size": 10,
        "decoder": {"inputs": {"input_ids": "x"}, "component": "decoder"},
    },
    "search": {"max_length": 8},
}


def _overlay(role: str, provider: str) -> dict[str, Any]:
    options: dict[str, Any] = {"provider_options": [{provider: {}}] if provider else []}
    return {
        "model": {
            role: {"filename": f"{role}.onnx", "session_options": options},
            "context_length": 8,
            "type": "llama",
        }
    }


def olive_tree(*roles: str) -> Tree:
    tree: Tree = {
        "manifest.json": {
            "schema_version": 1,
            "package_name": "llm",
            "package_version": "1.0",
            "components": list(roles),
            "configs_dir": "configs",
            "producer": _PRODUCER,
        },
        "configs/genai_config.json": _BASE,
        "configs/tokenizer.json": {"version": "1.0"},
    }
    for role in roles:
        tree[f"models/{role}/metadata.json"] = {
            "schema_version": 1,
            "component_name": role,
            "variants": {
                "cpu": {"ep": "CPUExecutionProvider"},
                "gpu": {"ep": "CUDAExecutionProvider", "compatibility_string": "sm_80"},
            },
        }
        for variant, provider in (("cpu", ""), ("gpu", "cuda")):
            folder = f"models/{role}/{variant}"
            tree[f"{folder}/{role}.onnx"] = model_with_data()
            tree[f"{folder}/w.bin"] = bytes(16)
            tree[f"{folder}/genai_config_overlay.json"] = _overlay(role, provider)
    return tree


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "llm.ortpackage", olive_tree("decoder"))


def test_is_read_with_the_models_in_the_folders_of_its_variants(package: Path) -> None:
    info = open_package(package)

    assert (info.name, info.version, info.is_olives) == ("llm", "1.0", True)
    assert [component.name for component in info.components] == ["decoder"]
    cpu, gpu = info.components[0].variants
    assert cpu.model_path == info.root / "models/decoder/cpu/decoder.onnx"
    assert (gpu.constraints.ep, gpu.constraints.ep_compatibility_info) == (
        "CUDAExecutionProvider",
        "sm_80",
    )
    assert ortpkg.ModelPackage(package).best_variant().name == "cpu"


def test_a_variant_of_several_models_is_a_set_of_files(package: Path) -> None:
    shutil.copy(
        package / "models/decoder/cpu/decoder.onnx", package / "models/decoder/cpu/head.onnx"
    )

    assert open_package(package).components[0].variants[0].model_path is None


def test_validate_says_that_no_onnxruntime_opens_it(package: Path) -> None:
    findings = [each for each in validate(package) if each.rule != "ORT405"]

    assert [(each.rule, each.severity) for each in findings] == [("ORT069", Severity.WARNING)]
    reports = migrate_check(package)
    assert [report.opens for report in reports] == [False] * 4
    remedies = {report.remedy for report in reports}
    assert remedies == {f"ortpkg convert {package} --to universal -o NEW"}
    converted = convert(package, "universal", output=package.parent / "new.ortpackage")
    assert [(row.opens, row.remedy) for row in migrate_check(converted.root)] == [(True, "")] * 4


def test_no_command_changes_it_in_place(package: Path) -> None:
    before = (package / "manifest.json").read_bytes()

    with pytest.raises(AuthoringError, match=READ_ONLY):
        edit(package, PackageEdits(description="x"))
    assert (package / "manifest.json").read_bytes() == before


def test_slim_and_merge_copy_it_into_no_other_form(
    package: Path, tmp_path: Path, make_model: ModelMaker
) -> None:
    target, other = tmp_path / "new.ortpackage", tmp_path / "other.ortpackage"
    create(other, [NewVariant.for_cpu(make_model("m"))])

    with pytest.raises(AuthoringError, match=READ_ONLY):
        slim(package, output=target, eps=["cpu"])
    with pytest.raises(AuthoringError, match=READ_ONLY):
        merge(package, other, output=target)
    assert not target.exists()


def test_its_variants_join_a_package_of_our_form(
    package: Path, tmp_path: Path, make_model: ModelMaker
) -> None:
    target, other = tmp_path / "new.ortpackage", tmp_path / "other.ortpackage"
    create(other, [NewVariant.for_cpu(make_model("m"))])

    merge(other, package, output=target)

    assert [component.name for component in open_package(target).components] == ["model", "decoder"]
    assert not [finding for finding in validate(target) if finding.severity is Severity.ERROR]


@pytest.mark.parametrize("form", [PackageFormat.COMPONENT, PackageFormat.UNIVERSAL])
@pytest.mark.parametrize("in_place", [True, False])
def test_becomes_a_package_whose_variants_are_genai_folders(
    package: Path, tmp_path: Path, form: PackageFormat, in_place: bool
) -> None:
    target = None if in_place else tmp_path / "new.ortpackage"

    converted = convert(package, form, output=target, notify=lambda _: None)

    root = converted.root
    assert (converted.is_olives, converted.format) == (False, form)
    assert [str(each) for each in validate(root)] == []
    assert ortpkg.verify(root).is_intact
    assert not (root / "configs").exists()
    folder = root / "models/decoder/gpu"
    assert {path.name for path in folder.iterdir()} == {
        "decoder.onnx",
        "w.bin",
        "genai_config.json",
        "tokenizer.json",
    }
    assert json.loads((folder / "genai_config.json").read_text()) == {
        "model": {
            "vocab_size": 10,
            "context_length": 8,
            "type": "llama",
            "decoder": {
                "inputs": {"input_ids": "x"},
                "filename": "decoder.onnx",
                "session_options": {"provider_options": [{"cuda": {}}]},
            },
        },
        "search": {"max_length": 8},
    }
    assert converted.additional_metadata == {"producer": _PRODUCER}
    assert [report.opens for report in migrate_check(root)][1:] == [True] * 3


def test_several_components_keep_their_configurations_together(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "vlm.ortpackage", olive_tree("decoder", "vision"))
    said: list[str] = []

    converted = convert(
        root, PackageFormat.COMPONENT, output=tmp_path / "new.ortpackage", notify=said.append
    )

    assert any("'decoder', 'vision' are components of their own" in text for text in said)
    assert (converted.root / "configs/genai_config.json").is_file()
    assert (converted.root / "models/vision/gpu/genai_config_overlay.json").is_file()
    assert converted.additional_metadata == {"configs_dir": "configs", "producer": _PRODUCER}
    assert [report.opens for report in migrate_check(converted.root)] == [False, True, True, True]


@pytest.mark.parametrize("configs", ["../outside", "/etc", "", 7, "nowhere"])
def test_configurations_outside_of_the_package_are_nobodys(
    package: Path, tmp_path: Path, configs: object
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/genai_config.json").write_text("{}")
    manifest = json.loads((package / "manifest.json").read_text())
    (package / "manifest.json").write_text(json.dumps(manifest | {"configs_dir": configs}))

    converted = convert(package, PackageFormat.COMPONENT, output=tmp_path / "new.ortpackage")

    assert not (converted.root / "models/decoder/cpu/genai_config.json").exists()


@pytest.mark.parametrize(
    ("components", "message"),
    [
        (["../../etc"], "'models/../../etc/metadata.json' leads out of its folder"),
        (["nothing"], "'models/nothing/metadata.json' does not exist"),
        ([7], "components: is a list"),
    ],
)
def test_components_that_cannot_be_are_refused(
    package: Path, components: list[Any], message: str
) -> None:
    manifest = json.loads((package / "manifest.json").read_text())
    (package / "manifest.json").write_text(json.dumps(manifest | {"components": components}))

    with pytest.raises(PackageFormatError) as caught:
        open_package(package)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("target", "patch", "merged"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        (["a", "b"], {"a": 1}, {"a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ],
)
def test_merge_patches_are_those_of_the_rfc(target: Any, patch: Any, merged: Any) -> None:
    assert merge_patch(target, patch) == merged


@pytest.mark.parametrize("stated", ["../configs", "/etc", "nowhere", 7, None])
def test_converting_says_that_the_configurations_are_not_where_the_manifest_says(
    tmp_path: Path, stated: object
) -> None:
    tree = olive_tree("decoder")
    manifest = dict(tree["manifest.json"])
    manifest["configs_dir"] = stated
    tree["manifest.json"] = manifest
    root = write_tree(tmp_path / "llm.ortpackage", tree)
    notes: list[str] = []

    converted = convert(root, "component", output=tmp_path / "made", notify=notes.append)

    (note,) = [note for note in notes if "onnxruntime-genai" in note]
    assert "no genai_config.json is made for onnxruntime-genai: " in note
    assert "genai_config_overlay.json of 2 variants stay as they are" in note
    assert (converted.root / "models/decoder/cpu/genai_config_overlay.json").is_file()


def test_converting_says_nothing_of_configurations_that_a_package_does_not_have(
    tmp_path: Path,
) -> None:
    tree = {
        path: content
        for path, content in olive_tree("decoder").items()
        if "genai_config" not in path and not path.startswith("configs/")
    }
    manifest = dict(tree["manifest.json"])
    del manifest["configs_dir"]
    tree["manifest.json"] = manifest
    notes: list[str] = []

    convert(
        write_tree(tmp_path / "llm.ortpackage", tree),
        "component",
        output=tmp_path / "made",
        notify=notes.append,
    )

    assert [note for note in notes if "genai" in note] == []
