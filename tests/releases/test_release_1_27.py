"""What is said of onnxruntime 1.26 and 1.27 is what the interop tests have seen them do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ortpkg.package.package_info import Constraints
from ortpkg.selection.releases.release_1_27 import read_as_1_27
from tests.interop.case import Case
from tests.interop.metadata_cases import METADATA_CASES, SELECT_CASES
from tests.interop.packages import Tree, write_tree


def _refuses_the_package(case: Case) -> bool:
    """Whether the release fails for every caller, not only for EPs that were asked for."""
    return (
        case.refused is not None
        and case not in SELECT_CASES
        and not case.refused.text.startswith("No suitable")
    )


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in METADATA_CASES])
def test_foretells_whether_the_release_opens_the_package(case: Case, tmp_path: Path) -> None:
    if case.needs_posix and os.name == "nt":
        pytest.skip("needs links")
    root = write_tree(tmp_path / "in" / "p.ortpackage", case.tree)

    assert bool(read_as_1_27(root)[1]) == _refuses_the_package(case), case.says


def test_says_where_and_why(tmp_path: Path) -> None:
    tree: Tree = {
        "manifest.json": {"model_name": "m"},
        "models/c/metadata.json": {"model_variants": {"v": {"model_file": "none.onnx"}}},
        "models/c/v/a.txt": "",
    }
    _, (refusal,) = read_as_1_27(write_tree(tmp_path / "p", tree))

    assert (refusal.document, refusal.pointer) == ("models/c/metadata.json", "/model_variants/v")
    assert refusal.message.startswith("variant 'v' has no model file 'none.onnx'")


def test_what_is_no_folder_of_models_is_passed_over_wherever_it_stands(tmp_path: Path) -> None:
    tree: Tree = {
        "manifest.json": {"model_name": "m"},
        "models/a.txt": "",
        "models/b/notes.txt": "",
        "models/c/metadata.json": {"model_variants": {"v": {"model_file": "m.onnx"}}},
        "models/c/v/m.onnx": "",
        "models/d.txt": "",
    }

    assert read_as_1_27(write_tree(tmp_path / "p", tree))[1] == ()


def test_what_the_release_reads_of_a_variant_is_its_model_and_its_constraints(
    tmp_path: Path,
) -> None:
    whole = {"ep": "e", "device": "d", "architecture": "a", "ep_compatibility_info": "i"}
    stated = {
        "whole": whole,
        "none": None,
        "empty": dict.fromkeys(whole, ""),
        "numbers": dict.fromkeys(whole, 7),
    }
    variants = {name: {"model_id": name, "constraints": each} for name, each in stated.items()}
    tree: Tree = {
        "manifest.json": {"model_name": "m"},
        "models/c/metadata.json": {"model_variants": variants},
        **{f"models/c/{name}/m.onnx": "" for name in variants},
    }
    package, refusals = read_as_1_27(write_tree(tmp_path / "p", tree))

    assert refusals == ()
    assert package is not None
    (component,) = package.components
    found = {each.name: each.constraints for each in component.variants}
    assert found == {
        "whole": Constraints(**whole),
        **dict.fromkeys(("none", "empty", "numbers"), Constraints()),
    }
    assert [each.model_path for each in component.variants] == [
        tmp_path / "p/models/c" / each.name / "m.onnx" for each in component.variants
    ]


@pytest.mark.parametrize("named", ["m.onnx", "deep", "deep/only.onnx"])
def test_a_model_file_may_be_the_folder_of_the_only_one(tmp_path: Path, named: str) -> None:
    tree: Tree = {
        "manifest.json": {"model_name": "m"},
        "models/c/metadata.json": {"model_variants": {"v": {"model_file": named}}},
        "models/c/v/m.onnx": "",
        "models/c/v/deep/only.onnx": "",
        "models/c/v/deep/notes.txt": "",
    }
    package, _refusals = read_as_1_27(write_tree(tmp_path / "p", tree))

    assert package is not None
    model = package.components[0].variants[0].model_path
    assert model == tmp_path / "p/models/c/v" / (
        "m.onnx" if named == "m.onnx" else "deep/only.onnx"
    )
