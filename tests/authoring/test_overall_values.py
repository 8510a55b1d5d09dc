"""The package's inputs and outputs follow its components (K20)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ortpkg.authoring.create import add_variant, create, init_package, remove_variant
from ortpkg.authoring.merge import merge
from ortpkg.authoring.new_variant import NewVariant
from ortpkg.authoring.package_checks import validate
from ortpkg.package.package_info import PackageFormat
from ortpkg.package.reader import open_package
from tests.authoring.conftest import ModelMaker

ENCODER = "(float[1, 4] x) => (float[1, 4] h)"
DECODER = "(float[1, 4] h, float[1] scale) => (float[1, 4] y)"


def write_model(make_model: ModelMaker, name: str, signature: str) -> Path:
    """An Identity from the first input to the output."""
    import onnx

    first, output = (
        signature.split("]")[1].split()[0].rstrip(",)"),
        signature.split()[-1].rstrip(")"),
    )
    text = (
        f'<ir_version: 9, opset_import: ["" : 17]> agraph {signature} {{ {output} ='
        f" Identity({first}) }}"
    )
    path = make_model(name)
    onnx.save(onnx.parser.parse_model(text), path)
    return path


@pytest.fixture
def encoder(make_model: ModelMaker) -> Path:
    return write_model(make_model, "enc", ENCODER)


@pytest.fixture
def decoder(make_model: ModelMaker) -> Path:
    return write_model(make_model, "dec", DECODER)


def values_of(root: Path) -> tuple[list[str], list[str]]:
    package = open_package(root)
    return [value.name for value in package.inputs], [value.name for value in package.outputs]


@pytest.mark.requirement("K20")
@pytest.mark.parametrize("form", list(PackageFormat))
def test_they_are_those_of_the_components_wired_by_name(
    tmp_path: Path, encoder: Path, decoder: Path, form: PackageFormat
) -> None:
    root = tmp_path / "p.ortpackage"
    init_package(root, form=form)
    add_variant(root, encoder, component="enc", ep="cpu")
    assert values_of(root) == (["x"], ["h"])

    add_variant(root, decoder, component="dec", ep="cpu")
    assert values_of(root) == (["x", "scale"], ["y"])
    assert [str(each) for each in validate(root) if each.rule == "ORT122"] == []

    remove_variant(root, "enc", component="enc")
    assert values_of(root) == (["h", "scale"], ["y"])

    remove_variant(root, "dec", component="dec")
    assert values_of(root) == ([], [])


def test_merging_components_brings_them_together(
    tmp_path: Path, encoder: Path, decoder: Path
) -> None:
    create(tmp_path / "e.ortpackage", [NewVariant.for_cpu(encoder)], component="enc", name="p")
    create(tmp_path / "d.ortpackage", [NewVariant.for_cpu(decoder)], component="dec", name="p")

    merge(tmp_path / "e.ortpackage", tmp_path / "d.ortpackage")

    assert values_of(tmp_path / "e.ortpackage") == (["x", "scale"], ["y"])


def test_what_was_written_by_hand_stays_and_is_warned_of(
    tmp_path: Path, encoder: Path, decoder: Path
) -> None:
    root = tmp_path / "p.ortpackage"
    create(root, [NewVariant.for_cpu(encoder)], component="enc")
    manifest = json.loads((root / "manifest.json").read_bytes())
    manifest["outputs"][0]["name"] = "mine"
    (root / "manifest.json").write_text(json.dumps(manifest))

    add_variant(root, decoder, component="dec", ep="cpu")

    assert values_of(root) == (["x", "scale"], ["mine"])
    (finding,) = [each for each in validate(root) if each.rule == "ORT122"]
    assert (
        finding.message
        == "outputs are 'mine: tensor(float)', those of the components together are 'y:"
        " tensor(float)'"
    )


def test_a_component_whose_values_are_unknown_takes_them_away(
    tmp_path: Path, encoder: Path
) -> None:
    root = tmp_path / "p.ortpackage"
    create(root, [NewVariant.for_cpu(encoder)], component="enc")
    genai = tmp_path / "genai"
    genai.mkdir()
    (genai / "genai_config.json").write_text("{}")

    add_variant(root, genai, component="chat", ep="cpu")

    assert values_of(root) == ([], [])
