"""What variants share lies once: the numbers on the page are those of the files."""

from __future__ import annotations

import json
from pathlib import Path

from ortpkg import ModelPackage
from ortpkg.authoring.variant_sizes import files_by_variant, shared_by
from ortpkg.package.package_info import PackageInfo
from ortpkg.report.sections.stored_weights import stored_weights
from tests.report.conftest import DIGITS
from tests.report.models import save_named_model
from tests.report.pages import page_of


def _sharing(root: Path) -> PackageInfo:
    """Three variants of one model, and one with a model of its own."""
    for folder in ("common", "own"):
        (root / folder).mkdir(parents=True)
        save_named_model(root / folder / "model.onnx", folder * 3)
    folders = {"a": "common", "b": "common", "c": "common", "d": "own"}
    variants = {
        name: {"variant_directory": folder, "executor_info": {"ort": {"model_file": "model.onnx"}}}
        for name, folder in folders.items()
    }
    manifest = {
        "schema_version": "1.0",
        "package_name": "p",
        "components": {"c": {"component_name": "c", "variants": variants}},
    }
    (root / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return ModelPackage(root).info


def test_shared_files_are_grouped_by_who_uses_them(tmp_path: Path) -> None:
    info = _sharing(tmp_path / "p.ortpackage")
    (group,) = shared_by(files_by_variant(info))

    model = info.root / "common" / "model.onnx"
    assert group.users == (("c", "a"), ("c", "b"), ("c", "c"))
    assert group.files == (model,)
    assert group.nbytes == model.stat().st_size


def test_the_parts_add_up_to_what_lies_there(tmp_path: Path) -> None:
    info = _sharing(tmp_path / "p.ortpackage")
    weights = stored_weights(info, files_by_variant(info))

    assert weights is not None
    models = [info.root / folder / "model.onnx" for folder in ("common", "own")]
    lying = sum(path.stat().st_size for path in models)
    assert sum(each.nbytes for each in (*weights.own, *weights.shared)) == lying
    assert [(each.label, each.letters) for each in weights.own] == [
        ("a", ("A",)),
        ("b", ("A",)),
        ("c", ("A",)),
        ("d", ()),
    ]
    assert [(each.label, each.users, each.files) for each in weights.shared] == [
        ("A", "a, b, c", "model.onnx")
    ]
    assert weights.left_out == ""


def test_the_picture_has_a_bar_for_what_is_shared_and_a_letter_for_each_user(
    tmp_path: Path,
) -> None:
    info = _sharing(tmp_path / "p.ortpackage")
    weights = stored_weights(info, files_by_variant(info))

    assert weights is not None
    # Three users' chips, and the bar.
    assert weights.picture.count('class="ep-1"') == 4
    assert weights.picture.count('class="bar"') == 1


def test_the_page_tells_of_shared_files_only_where_there_are_some(
    tmp_path: Path, digits_html: str
) -> None:
    _sharing(tmp_path / "p.ortpackage")
    page = page_of(ModelPackage(tmp_path / "p.ortpackage").report())
    assert "Shared files" in page.words
    assert "What several variants use lies once:" in page.words
    assert "Shared files" not in page_of(digits_html).words
    assert stored_weights(ModelPackage(DIGITS).info, {}) is None


def test_many_variants_that_share_are_counted(tmp_path: Path) -> None:
    info = _sharing(tmp_path / "p.ortpackage")
    file = info.root / "common" / "model.onnx"
    files = {("c", f"v{number}"): {file: 100} for number in range(500)}
    weights = stored_weights(info, files)

    assert weights is not None
    assert len(weights.own) == 200
    assert weights.shared[0].users.endswith("v19 and 480 more")
    assert weights.left_out == (
        "300 more variants and shared parts are not shown here; ortpkg inspect --tree has all."
    )
    assert weights.summary.startswith(
        "What several variants use lies once: 100 B in all, where 50.0 kB"
    )
