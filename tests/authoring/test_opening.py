"""What a user names becomes an opened package."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from ortpkg.api.packing import pack
from ortpkg.api.verify import verify
from ortpkg.authoring.create import add_variant
from ortpkg.authoring.diff import diff
from ortpkg.authoring.opening import kind_of, opened, package_folder, remove_temporary_folders
from ortpkg.authoring.package_checks import validate
from ortpkg.foundations.errors import (
    ArchiveError,
    DigestMismatchError,
    ModelError,
    PackageNotFoundError,
    UsageError,
    VerifyExitCode,
)
from tests.authoring.conftest import ModelMaker


@pytest.fixture
def packed(package: Path, tmp_path: Path) -> Path:
    return pack(package, tmp_path / "p.ortpkg").path


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_folder_is_opened_where_it_lies(package: Path) -> None:
    with opened(package) as info:
        assert info.root == package


@pytest.mark.parametrize("name", ["p.ortpkg", "folder/p.ortpackage", "p.zip"])
def test_a_packed_package_is_opened_in_a_folder_that_goes_again(
    packed: Path, temporary: Path, name: str
) -> None:
    named = packed.parent / name
    named.parent.mkdir(exist_ok=True)
    packed.replace(named)
    before = named.read_bytes()

    with opened(named) as info:
        assert [each.name for each in info.components[0].variants] == ["a"]
        assert info.root.is_relative_to(temporary.resolve())

    assert list(temporary.iterdir()) == []
    assert named.read_bytes() == before


def test_the_folder_goes_after_an_error_too(packed: Path, temporary: Path) -> None:
    with pytest.raises(ZeroDivisionError), opened(packed):
        raise ZeroDivisionError
    assert list(temporary.iterdir()) == []


def test_a_process_that_ends_at_once_can_remove_the_folders(packed: Path, temporary: Path) -> None:
    with package_folder(packed):
        assert list(temporary.iterdir())
        remove_temporary_folders()
        assert list(temporary.iterdir()) == []


def test_damage_to_a_packed_package_is_named_and_leaves_nothing(
    packed: Path, temporary: Path
) -> None:
    content = bytearray(packed.read_bytes())
    content[content.index(b"a.onnx") + 60] ^= 1
    packed.write_bytes(content)
    with pytest.raises((ArchiveError, DigestMismatchError), match=r"a\.onnx"), opened(packed):
        pass
    assert list(temporary.iterdir()) == []


def test_a_bare_model_is_a_package_of_one_variant(make_model: ModelMaker, tmp_path: Path) -> None:
    model = make_model("a")
    (tmp_path / "samples").mkdir()
    with opened(model) as info:
        (component,) = info.components
        (variant,) = component.variants
        assert info.is_bare_model
        assert (info.name, variant.name) == (model.stem, model.stem)
        assert variant.model_path == model.resolve()
        assert [value.name for value in info.inputs] == ["x"]
        assert variant.metadata["data_types"] == ("float",)


@pytest.mark.parametrize(
    ("name", "content"), [("m.onnx", b"no model"), ("m.ortpkg", b"no archive")]
)
def test_a_file_that_is_not_what_its_name_says_is_an_error(
    tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises((ModelError, ArchiveError), match=name), opened(tmp_path / name):
        pass


def test_any_other_file_is_an_error_that_says_what_would_be_right(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("hello")
    with pytest.raises(
        PackageNotFoundError, match=r"a packed package \(name\.ortpkg\) or an ONNX model"
    ):
        kind_of(tmp_path / "README.md")
    with (
        pytest.raises(PackageNotFoundError, match="does not exist"),
        opened(tmp_path / "nothing.onnx"),
    ):
        pass


def test_validate_looks_into_models_and_packed_packages(
    packed: Path, make_model: ModelMaker
) -> None:
    assert [str(each) for each in validate(packed)] == [
        str(each) for each in validate(packed.with_suffix(".ortpackage"))
    ]
    model = make_model("b")
    assert validate(model) == ()
    model.write_bytes(model.read_bytes()[:-7])
    assert [finding.rule for finding in validate(model)] == ["ORT110"]


def test_diff_compares_models_and_packed_packages(
    packed: Path, package: Path, make_model: ModelMaker
) -> None:
    assert diff(packed, package).is_equal
    add_variant(package, make_model("b"), notify=lambda _: None)
    assert diff(packed, package).variants_added == (("model", "b"),)
    (changed,) = diff(make_model("c"), make_model("d", producer="other")).variants_changed
    assert (changed.component, changed.variant) == ("model", "model")
    assert diff(make_model("c"), make_model("e")).is_equal


def test_verify_names_every_difference_in_a_packed_package(package: Path, tmp_path: Path) -> None:
    intact = pack(package, tmp_path / "intact.ortpkg").path
    assert verify(intact).is_intact
    (package / "extra.txt").write_text("not recorded")
    assert verify(package).exit_code == VerifyExitCode.MISSING_OR_EXTRA
    shutil.make_archive(str(tmp_path / "odd"), "zip", package)
    odd = (tmp_path / "odd.zip").rename(tmp_path / "odd.ortpkg")
    report = verify(odd)
    assert [(each.kind, each.file) for each in report.differences] == [("extra", "extra.txt")]


def test_verify_has_nothing_to_compare_a_model_with(make_model: ModelMaker, packed: Path) -> None:
    with pytest.raises(UsageError, match="nothing records what its bytes should be"):
        verify(make_model("b"))
    with pytest.raises(UsageError, match="is packed: unpack it, and repair the folder"):
        verify(packed, repair_from=os.curdir)
