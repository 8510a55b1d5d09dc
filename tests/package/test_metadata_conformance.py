"""What onnxruntime 1.26 asserts of reading the metadata generation, and where we are stricter.

Its tests are in ``test_model_package.cc``.

A1 to A4 of that file go on to select and run a variant; here is what they say about reading.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ortpkg.foundations.errors import PackageFormatError
from ortpkg.package.package_info import Constraints, PackageFormat, PackageInfo
from ortpkg.package.reader import check_package, open_package
from tests.package.conftest import WritePackage

EP = "example_ep"


def variant(model_file: str | None = "m.onnx", **constraints: str) -> dict[str, Any]:
    return ({"model_file": model_file} if model_file is not None else {}) | {
        "constraints": {"ep": EP} | constraints
    }


def package(**variants: Any) -> dict[str, Any]:
    manifest = {"model_name": "m", "component_models": ["c"]}
    metadata = {"component_model_name": "c", "model_variants": variants}
    models = {f"models/c/{name}/m.onnx": "" for name in variants}
    return {"manifest.json": manifest, "models/c/metadata.json": metadata} | models


def constraints(info: PackageInfo) -> dict[str, Constraints]:
    return {each.name: each.constraints for each in info.components[0].variants}


TWO = {"cpu": variant(device="cpu"), "npu": variant(device="npu")}


@pytest.mark.requirement("K05")
def test_a1_a3_two_variants_of_one_ep(write_package: WritePackage) -> None:
    assert constraints(open_package(write_package(package(**TWO)))) == {
        "cpu": Constraints(ep=EP, device="cpu"),
        "npu": Constraints(ep=EP, device="npu"),
    }


@pytest.mark.requirement("K01")
def test_a2_a10_the_components_folder_alone(write_package: WritePackage) -> None:
    root = write_package(package(**TWO))
    info = open_package(root / "models" / "c")
    assert (info.format, info.name, len(info.components)) == (PackageFormat.METADATA, "c", 1)
    assert constraints(info) == constraints(open_package(root))
    assert [each.model_path for each in info.components[0].variants] == [
        root.resolve() / "models" / "c" / name / "m.onnx" for name in TWO
    ]


def test_a2_the_components_folder_needs_no_name(write_package: WritePackage) -> None:
    root = write_package({"c/metadata.json": {"model_variants": {"v": {}}}, "c/v/m.onnx": ""})
    info = open_package(root / "c")
    assert (info.name, info.components[0].name) == ("c", "c")


def test_a4_compatibility_info(write_package: WritePackage) -> None:
    both = {name: variant(device="cpu", ep_compatibility_info=name) for name in ("first", "second")}
    info = open_package(write_package(package(**both)))
    assert [each.ep_compatibility_info for each in constraints(info).values()] == [
        "first",
        "second",
    ]


@pytest.mark.requirement("K03")
def test_a5_components_are_discovered_by_their_metadata(write_package: WritePackage) -> None:
    root = write_package(
        package(**TWO) | {"manifest.json": {"model_name": "m"}, "models/other/m.onnx": ""}
    )
    assert [each.name for each in open_package(root).components] == ["c"]


@pytest.mark.parametrize(("model_file", "place"), [("sub", "sub/only.onnx"), (None, "m.onnx")])
def test_a6_a7_the_only_model_of_a_folder(
    write_package: WritePackage, model_file: str | None, place: str
) -> None:
    root = write_package(package(v=variant(model_file)) | {"models/c/v/sub/only.onnx": ""})
    (read,) = open_package(root).components[0].variants
    assert read.model_path == root.resolve() / "models" / "c" / "v" / place


def test_a8_several_models_in_a_folder(write_package: WritePackage) -> None:
    root = write_package(package(v=variant(None)) | {"models/c/v/other.onnx": ""})
    with pytest.raises(PackageFormatError, match=r"holds 2 ONNX files: 'm\.onnx', 'other\.onnx'"):
        open_package(root)


def test_a9_ep_device_and_architecture(write_package: WritePackage) -> None:
    both = {
        "a": variant(device="cpu", architecture="arch1"),
        "b": variant(device="npu", architecture="arch2"),
    }
    assert constraints(open_package(write_package(package(**both)))) == {
        "a": Constraints(ep=EP, device="cpu", architecture="arch1"),
        "b": Constraints(ep=EP, device="npu", architecture="arch2"),
    }


def test_a11_model_id_names_the_folder(write_package: WritePackage) -> None:
    body = variant(None) | {"model_id": "phi4-cpu:1"}
    root = write_package(package(catalog_variant=body) | {"models/c/phi4-cpu_1/m.onnx": ""})
    (read,) = open_package(root).components[0].variants
    assert (read.name, read.directory) == (
        "catalog_variant",
        root.resolve() / "models" / "c" / "phi4-cpu_1",
    )


# --- where that release is laxer, or means something else -----------------------------------------


def test_refuses_a_root_that_is_a_component_too(write_package: WritePackage) -> None:
    root = write_package(package(v={}) | {"metadata.json": {"model_variants": {}}})
    (found,) = check_package(root)[1]
    assert (found.rule, found.document) == ("ORT060", "metadata.json")


def test_a_component_that_is_wrong_is_so_in_its_own_folder_too(write_package: WritePackage) -> None:
    root = write_package(
        {"metadata.json": {"model_variants": {"v": {"model_file": "../x"}}}, "v/m.onnx": ""}
    )
    (found,) = check_package(root)[1]
    assert (found.rule, found.document, found.pointer) == (
        "ORT008",
        "metadata.json",
        "/model_variants/v/model_file",
    )


@pytest.mark.parametrize(
    ("files", "rule"),
    [
        (package(v={"model_file": "../../../x.onnx"}), "ORT008"),
        (package(v={"model_id": "..", "model_file": "m.onnx"}), "ORT008"),
        (package(v={"constraints": {"device": 1}}), "ORT005"),
        (package(v=1), "ORT005"),
        (package() | {"manifest.json": {"model_name": "m", "model_version": 1}}, "ORT005"),
        (
            package() | {"manifest.json": {"model_name": "m", "component_models": ["../models/c"]}},
            "ORT008",
        ),
    ],
)
def test_refuses_what_that_release_overlooks(
    write_package: WritePackage, files: dict[str, Any], rule: str
) -> None:
    found = [each.rule for each in check_package(write_package(files))[1]]
    assert rule in found


def test_a_link_to_a_package_is_one(write_package: WritePackage, tmp_path: Path) -> None:
    root = write_package(package(v={}))
    try:
        (tmp_path / "link").symlink_to(root, target_is_directory=True)
    except OSError:
        pytest.skip("this machine does not let us make symbolic links")
    assert open_package(tmp_path / "link") == open_package(root)
