"""Packages some of whose variants are not here: they open, verify, select and run what is."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import ortpkg
from ortpkg.foundations.errors import AuthoringError, NoSuitableVariantError, PackageFormatError
from ortpkg.package.integrity.absent_files import AbsentFiles
from ortpkg.package.integrity.digest_check import compute_digests
from ortpkg.package.integrity.digests import dump_digests
from ortpkg.package.integrity.verification import verify_package
from ortpkg.package.reader import check_package, open_package
from ortpkg.package.sidecar import DIGESTS_FILE
from ortpkg.selection.matching.verdict import ReasonCode
from tests.package.component_cases import ASSET, ASSET_FOLDER, FOLDER_OPTION, component, package
from tests.package.conftest import WritePackage

DIGITS = Path(__file__).resolve().parents[2] / "sample_packages" / "digits.ortpackage"
KEPT = "cpu-fp32"
MODELS = "models/classifier"


def absent_names(root: Path) -> list[str]:
    (component,) = open_package(root).components
    return [variant.name for variant in component.variants if variant.is_absent]


@pytest.fixture
def sparse(tmp_path: Path) -> Path:
    """The documents of digits, and one variant."""
    root = Path(shutil.copytree(DIGITS, tmp_path / "digits.ortpackage"))
    for folder in (root / MODELS).iterdir():
        if folder.is_dir() and folder.name != KEPT:
            shutil.rmtree(folder)
    for file in (root / "samples").glob("*.npz"):
        file.unlink()
    return root


def test_it_opens_and_says_what_is_absent(sparse: Path) -> None:
    package, findings = check_package(sparse)

    assert package is not None
    assert findings == check_package(DIGITS)[1]
    assert absent_names(sparse) == ["cpu-int8", "openvino-npu", "openvino-gpu", "cuda"]
    assert package.absent_files[f"{MODELS}/cuda/model.onnx"] == 53714
    assert open_package(DIGITS).absent_files == {}


def test_a_whole_package_is_opened_without_its_record(
    write_package: WritePackage, monkeypatch: pytest.MonkeyPatch
) -> None:
    variants = {"component_model_name": "c", "model_variants": {"v": {}}}
    manifest = {"model_name": "m"}
    files = {"manifest.json": manifest, "models/c/metadata.json": variants}

    monkeypatch.setattr(AbsentFiles, "files", property(lambda _: pytest.fail("it was read")))

    assert open_package(write_package(files | {"models/c/v/model.onnx": ""})).absent_files == {}
    assert open_package(write_package(package())).absent_files == {}
    assert open_package(DIGITS).absent_files == {}


def test_a_shared_asset_may_be_absent(write_package: WritePackage) -> None:
    payload = {"model_file": f"{ASSET}/b.onnx", "session_options": {FOLDER_OPTION: ASSET}}
    variants = {"v": {}, "w": {"variant_directory": "v", "executor_info": {"ort": payload}}}
    root = write_package(component({"variants": variants}) | {f"{ASSET_FOLDER}/b.onnx": ""})
    (root / DIGESTS_FILE).write_bytes(dump_digests(compute_digests(root)))
    whole = open_package(root)
    shutil.rmtree(root / "shared_assets")

    sparse = open_package(root)

    assert absent_names(root) == ["w"]
    assert sparse.shared_assets == whole.shared_assets
    assert sparse.components[0].variants[1].model_path == whole.components[0].variants[1].model_path


def test_absent_is_not_damaged(sparse: Path) -> None:
    report = verify_package(sparse)

    assert (report.is_intact, report.exit_code, report.differences) == (True, 0, ())
    assert report.package_digest == verify_package(DIGITS).package_digest
    assert set(report.absent_files) == set(open_package(sparse).absent_files)


def test_what_is_here_is_still_compared(sparse: Path) -> None:
    model = sparse / MODELS / KEPT / "model.onnx"
    model.write_bytes(model.read_bytes()[:-1] + b"\0")

    (difference,) = verify_package(sparse).differences

    assert difference.file == f"{MODELS}/{KEPT}/model.onnx"


def test_a_file_that_is_gone_from_a_folder_is_missing(sparse: Path) -> None:
    (sparse / MODELS / KEPT / "model.onnx").unlink()  # its folder stays, empty

    (difference,) = verify_package(sparse).differences

    assert (difference.kind.value, difference.file) == ("missing", f"{MODELS}/{KEPT}/model.onnx")
    with pytest.raises(PackageFormatError, match="ORT010"):
        open_package(sparse)


def test_documents_beside_what_is_absent_make_no_difference(sparse: Path) -> None:
    folder = sparse / MODELS / "cuda"
    folder.mkdir()
    (folder / "notes.json").write_text("{}")

    assert "cuda" in absent_names(sparse)
    (difference,) = verify_package(sparse).differences
    assert (difference.kind.value, difference.file) == ("extra", f"{MODELS}/cuda/notes.json")


def test_without_a_record_nothing_is_absent(sparse: Path) -> None:
    (sparse / DIGESTS_FILE).unlink()

    with pytest.raises(PackageFormatError, match="ORT010"):
        open_package(sparse)


@pytest.mark.parametrize("content", ["{", "{}", '{"files": []}'])
def test_a_damaged_record_makes_nothing_absent(sparse: Path, content: str) -> None:
    (sparse / DIGESTS_FILE).write_text(content)

    with pytest.raises(PackageFormatError, match="ORT010"):
        open_package(sparse)


def test_what_is_here_is_selected_and_what_would_be_better_is_told(sparse: Path) -> None:
    package = ortpkg.ModelPackage(sparse)

    selection = package.select(profile="rtx-workstation")
    as_if_here = package.select(profile="rtx-workstation", include_absent=True)

    assert selection.best is not None
    assert selection.best.variant.name == KEPT
    assert any("'cuda' is passed over" in warning for warning in selection.warnings)
    assert as_if_here.best is not None
    assert as_if_here.best.variant.name == "cuda"
    assert not any("passed over" in warning for warning in as_if_here.warnings)


def test_what_is_here_runs(sparse: Path) -> None:
    image = np.zeros((1, 1, 8, 8), np.float32)

    with ortpkg.ModelPackage(sparse).best_variant().create_session() as session:
        (found,) = session.run(None, {"image": image})
    with ortpkg.ModelPackage(DIGITS).variant(KEPT).create_session() as session:
        (expected,) = session.run(None, {"image": image})

    np.testing.assert_array_equal(found, expected)


def test_asking_for_what_is_absent_says_how_to_fetch_it(sparse: Path) -> None:
    variant = ortpkg.ModelPackage(sparse).variant("cpu-int8")

    with pytest.raises(NoSuitableVariantError, match="ortpkg pull with --variant") as raised:
        variant.create_session()

    codes = {verdict.code for verdict in raised.value.selection.verdicts}
    assert ReasonCode.VARIANT_ABSENT in codes


@pytest.mark.parametrize(
    "change",
    [
        lambda root: ortpkg.pack(root, root.parent / "d.ortpkg"),
        lambda root: ortpkg.slim(root, devices=["cpu"], output=root.parent / "s.ortpackage"),
        lambda root: ortpkg.slim(root, devices=["cpu"]),
    ],
)
def test_what_needs_all_files_says_so(sparse: Path, change: object) -> None:
    assert callable(change)
    with pytest.raises(AuthoringError, match="--all-variants --samples fetches all"):
        change(sparse)
