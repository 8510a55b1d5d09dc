"""What is said of onnxruntime 1.26 and 1.27 is what the interop tests have seen them do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ortpkg.package.release_1_27 import why_1_27_refuses
from tests.interop.case import Case
from tests.interop.metadata_cases import METADATA_CASES, SELECT_CASES
from tests.interop.packages import Tree, write_tree


def _refuses_the_package(case: Case) -> bool:
    """Whether the release ends with an error for every caller: not for lack of a variant for the EPs asked for."""
    return case.refused is not None and case not in SELECT_CASES and not case.refused.text.startswith("No suitable")


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in METADATA_CASES])
def test_foretells_whether_the_release_opens_the_package(case: Case, tmp_path: Path) -> None:
    if case.needs_posix and os.name == "nt":
        pytest.skip("needs links")
    root = write_tree(tmp_path / "in" / "p.ortpackage", case.tree)

    assert bool(list(why_1_27_refuses(root))) == _refuses_the_package(case), case.says


def test_says_where_and_why(tmp_path: Path) -> None:
    tree: Tree = {
        "manifest.json": {"model_name": "m"},
        "models/c/metadata.json": {"model_variants": {"v": {"model_file": "none.onnx"}}},
        "models/c/v/a.txt": "",
    }
    (refusal,) = why_1_27_refuses(write_tree(tmp_path / "p", tree))

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

    assert list(why_1_27_refuses(write_tree(tmp_path / "p", tree))) == []
