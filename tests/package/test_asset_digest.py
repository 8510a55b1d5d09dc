"""The digest that names a shared asset; the known answers are those of onnxruntime's own tests."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

from ortpkg.foundations.errors import PackageError
from ortpkg.package.integrity.asset_digest import directory_digest

KNOWN = [
    ({}, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
    ({"a.txt": "alpha"}, "50d4df60d12751593bd3d735339ecc04a2973515758f8524d47005397cfd0140"),
    (
        {"a.txt": "alpha", "b.txt": "beta", "c.txt": "gamma"},
        "8254173dd6e72003f0505bc7c99f6ed88e66044fe98cd3137d13f047a27f88b6",
    ),
    ({"dir/sub/c.txt": "x"}, "8995386212f1bb9af7a1d21c630323930f51dc51b0bb71f48f7569d518d6b046"),
    ({"f": ""}, "031ada0a99f51a1eb989ed55a6124e584ccd9c583f5f25578d9275d319bad523"),
    (
        {"é.txt": "e", "z.txt": "z"},
        "43645faebb76e0539d9346c6c0cd018a8a48d239e845baf2e94affec076bc038",
    ),
]


def write(root: Path, files: dict[str, str]) -> Path:
    root.mkdir(parents=True)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode())
    return root


@pytest.mark.requirement("K23")
@pytest.mark.parametrize(("files", "digest"), KNOWN)
def test_gives_the_known_answers(tmp_path: Path, files: dict[str, str], digest: str) -> None:
    assert directory_digest(write(tmp_path / "a", files)) == f"sha256:{digest}"


@pytest.mark.skipif(sys.platform != "linux", reason="needs a file system that tells aB from ab")
def test_sorts_by_the_bytes_of_the_path(tmp_path: Path) -> None:
    files = {"a-b": "1", "a.b": "2", "a/b": "3", "aB": "4", "B": "5"}
    known = "77ede6b14ff3d603078f25e35cc37f0e1b58ae584702cbfef0d46e3dc1bc72ad"
    assert directory_digest(write(tmp_path / "a", files)) == f"sha256:{known}"


def test_counts_hidden_files_but_no_empty_folders(tmp_path: Path) -> None:
    root = write(tmp_path / "a", {".hidden": "x"})
    (root / "empty" / "inner").mkdir(parents=True)
    line = hashlib.sha256(b"x").hexdigest() + "  .hidden\n"
    assert directory_digest(root) == f"sha256:{hashlib.sha256(line.encode()).hexdigest()}"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"a": "1"}, {"b": "1"}),
        ({"a": "1"}, {"a": "2"}),
        ({"a": "1", "b": "2"}, {"a": "2", "b": "1"}),
    ],
)
def test_names_and_contents_count(
    tmp_path: Path, first: dict[str, str], second: dict[str, str]
) -> None:
    assert directory_digest(write(tmp_path / "1", first)) != directory_digest(
        write(tmp_path / "2", second)
    )


@pytest.mark.parametrize("target", ["file", "folder", "nowhere"])
def test_refuses_links_inside(tmp_path: Path, target: str) -> None:
    root = write(tmp_path / "a", {"file": "x", "folder/file": "y"})
    try:
        (root / "link").symlink_to(target)
    except OSError:
        pytest.skip("this machine does not let us make symbolic links")
    with pytest.raises(
        PackageError, match="'link' is a link: a shared asset holds files and folders only"
    ):
        directory_digest(root)


def test_refuses_what_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in ("file", "nowhere"):
        with pytest.raises(PackageError, match=f"{name}' is not a folder"):
            directory_digest(tmp_path / name)
