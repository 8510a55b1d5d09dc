"""Links of a model cache and of one's own are followed, others are not."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest

import ortpkg
from ortpkg.foundations.errors import AuthoringError, ModelFileError
from ortpkg.graph.linked_files import why_not_followed
from ortpkg.graph.onnx_reader import load_model

pytestmark = pytest.mark.skipif(os.name == "nt", reason="symbolic links need a privilege here")

WEIGHT = np.arange(6, dtype=np.float32).reshape(2, 3)
GENAI = '{"model": {"decoder": {"filename": "model.onnx"}}}'


def write_model(folder: Path) -> Path:
    """``y = x + w`` with its weight in ``model.onnx_data``."""
    folder.mkdir(parents=True)
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18]> g (float[2, 3] x) => (float[2, 3] y) { y ='
        " Add(x, w) }"
    )
    proto.graph.initializer.append(onnx.numpy_helper.from_array(WEIGHT, "w"))
    path = folder / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="model.onnx_data", size_threshold=0)
    return path


def cached(folder: Path) -> Path:
    """The model as the cache of Hugging Face has it, below a folder ``onnx`` of the snapshot."""
    original = write_model(folder / "original")
    snapshot, blobs = folder / "models--a--b/snapshots/0123/onnx", folder / "models--a--b/blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for number, file in enumerate(sorted(original.parent.iterdir())):
        file.rename(blobs / f"{number:064x}")
        (snapshot / file.name).symlink_to(f"../../../blobs/{number:064x}")
    return snapshot / "model.onnx"


def outputs_of(session: ortpkg.InferenceSession) -> np.ndarray:
    (found,) = session.run(None, {"x": np.zeros((2, 3), np.float32)})
    return np.asarray(found)


@pytest.fixture
def not_mine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The current user is another one than who made the files."""
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)


@pytest.mark.usefixtures("not_mine")
def test_sessions_follow_the_links_of_a_model_cache(tmp_path: Path) -> None:
    np.testing.assert_array_equal(outputs_of(ortpkg.InferenceSession(cached(tmp_path))), WEIGHT)


@pytest.mark.usefixtures("not_mine")
@pytest.mark.parametrize("named", ["model.onnx", "."])
def test_packages_are_made_of_what_a_model_cache_links_to(tmp_path: Path, named: str) -> None:
    model = cached(tmp_path)
    notes: list[str] = []
    ortpkg.create(
        tmp_path / "p.ortpackage",
        [ortpkg.NewVariant(model=model.parent / named)],
        notify=notes.append,
    )

    package = ortpkg.ModelPackage(tmp_path / "p.ortpackage")
    variant = package.best_variant()
    assert sorted(path.name for path in variant.directory.iterdir()) == [
        "model.onnx",
        "model.onnx_data",
    ]
    assert not any(path.is_symlink() for path in package.root.rglob("*"))
    assert [
        note
        for note in notes
        if "2 of its files are symbolic links; what they lead to is copied" in note
    ]
    np.testing.assert_array_equal(outputs_of(variant.create_session()), WEIGHT)


def test_a_model_that_is_a_link_is_named_after_the_link(tmp_path: Path) -> None:
    model = write_model(tmp_path / "real")
    (tmp_path / "small.onnx").symlink_to(model)
    (tmp_path / "model.onnx_data").symlink_to(model.parent / "model.onnx_data")
    ortpkg.create(tmp_path / "p.ortpackage", [ortpkg.NewVariant(model=tmp_path / "small.onnx")])
    assert ortpkg.ModelPackage(tmp_path / "p.ortpackage").best_variant().name == "small"


def test_links_of_ones_own_are_followed_in_sessions_and_packages(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model")
    data = model.parent / "model.onnx_data"
    data.rename(tmp_path / "elsewhere")
    data.symlink_to(tmp_path / "elsewhere")

    np.testing.assert_array_equal(outputs_of(ortpkg.InferenceSession(model)), WEIGHT)
    ortpkg.create(tmp_path / "p.ortpackage", [ortpkg.NewVariant(model=model)])
    copied = (
        ortpkg.ModelPackage(tmp_path / "p.ortpackage").best_variant().directory / "model.onnx_data"
    )
    assert copied.read_bytes() == (tmp_path / "elsewhere").read_bytes()


@pytest.mark.usefixtures("not_mine")
def test_links_that_somebody_else_made_are_not_followed(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model")
    data = model.parent / "model.onnx_data"
    data.rename(tmp_path / "secret")
    data.symlink_to(tmp_path / "secret")

    with pytest.raises(
        ModelFileError, match=r"a symbolic link that leaves .* and was made by somebody else"
    ):
        load_model(model, with_own_links=True).graph.initializers["w"].numpy()
    for named in (model, model.parent):
        with pytest.raises((AuthoringError, ModelFileError), match="and was made by somebody else"):
            ortpkg.create(tmp_path / "p.ortpackage", [ortpkg.NewVariant(model=named)])
    assert not (tmp_path / "p.ortpackage").exists()


def test_a_link_of_ones_own_that_leads_to_somebody_elses_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").touch()
    (tmp_path / "theirs").symlink_to("secret")
    (folder / "mine").symlink_to("../theirs")
    assert why_not_followed(folder / "mine", folder, None, with_own_links=True) is None

    their_inode, lstat = (tmp_path / "theirs").lstat().st_ino, Path.lstat

    def lstat_of_two_users(path: Path) -> os.stat_result:
        status = list(lstat(path))
        status[4] += status[1] == their_inode
        return os.stat_result(status)

    monkeypatch.setattr(Path, "lstat", lstat_of_two_users)
    reason = why_not_followed(folder / "mine", folder, None, with_own_links=True)
    assert reason is not None
    assert "made by somebody else" in reason


def test_the_session_of_a_package_follows_no_link_of_ones_own(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model")
    ortpkg.create(tmp_path / "p.ortpackage", [ortpkg.NewVariant(model=model)])
    variant = ortpkg.ModelPackage(tmp_path / "p.ortpackage").best_variant()
    data = variant.directory / "model.onnx_data"
    data.rename(tmp_path / "elsewhere")
    data.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ModelFileError, match="a symbolic link that leaves"):
        variant.create_session(verify=False)


def test_links_to_folders_and_to_nothing_are_refused_in_words(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model")
    (model.parent / "more").symlink_to(tmp_path)
    with pytest.raises(
        AuthoringError, match="is a symbolic link to a folder: a package holds plain files only"
    ):
        ortpkg.create(tmp_path / "p.ortpackage", [ortpkg.NewVariant(model=model.parent)])
    (model.parent / "more").unlink()
    (model.parent / "more").symlink_to("gone")
    with pytest.raises(AuthoringError, match="is a symbolic link to nothing"):
        ortpkg.create(tmp_path / "p.ortpackage", [ortpkg.NewVariant(model=model.parent)])


def test_onnxruntime_follows_the_links_of_a_model_cache_too(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(
        str(cached(tmp_path)), providers=["CPUExecutionProvider"]
    )
    np.testing.assert_array_equal(session.run(None, {"x": np.zeros((2, 3), np.float32)})[0], WEIGHT)
