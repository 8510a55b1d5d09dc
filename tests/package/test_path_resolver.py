"""Every path that a package names: which texts are refused, and where symbolic links may lead."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ortpkg.foundations.errors import PathEscapesPackageError
from ortpkg.package.paths.disk_places import PathKind
from ortpkg.package.paths.path_resolver import PathResolver
from ortpkg.package.paths.path_text import why_not_a_name, why_not_portable


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "real" / "p"
    (root / "a").mkdir(parents=True)
    (root / "a" / "f.onnx").write_bytes(b"")
    (tmp_path / "real" / "p2").mkdir()
    (tmp_path / "real" / "p2" / "secret").write_bytes(b"")
    return root


def link(path: Path, target: Path | str) -> None:
    try:
        path.symlink_to(target)
    except OSError:
        pytest.skip("this machine does not let us make symbolic links")


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("", "is empty"),
        ("/etc/passwd", "is absolute"),
        ("\\\\server\\share", "is absolute"),
        ("//server/share", "is absolute"),
        ("C:x", "names a drive"),
        ("c:/x", "names a drive"),
        ("..", "leads out"),
        ("../x", "leads out"),
        ("a/../b", "leads out"),
        ("a/..", "leads out"),
        ("a\\b", "holds a backslash"),
        ("..\\x", "holds a backslash"),
        ("a\x00b", "holds control characters"),
        ("a\n", "holds control characters"),
        ("a/\x1b[31m", "holds control characters"),
        ("con", "is a device's name on Windows"),
        ("a/NUL.txt", "is a device's name on Windows"),
        ("com1.onnx", "is a device's name on Windows"),
        ("LPT9", "is a device's name on Windows"),
        ("aux .onnx", "is a device's name on Windows"),
        ("a.", "ends with a dot or a space"),
        ("a /b", "ends with a dot or a space"),
        ("...", "ends with a dot or a space"),
        ("ab:c", "holds ':'"),
        ("a?", "holds '?'"),
        ("a" * 256, "more than 255 bytes"),
        ("é" * 128, "more than 255 bytes"),
        ("a/" * 3000, "longer than 4096 characters"),
        ("\ud800", "is not well-formed Unicode"),
    ],
)
def test_refuses_what_is_not_a_portable_relative_path(
    root: Path, reference: str, reason: str
) -> None:
    with pytest.raises(PathEscapesPackageError) as caught:
        PathResolver(root).resolve(reference)
    assert reason in str(caught.value)
    assert caught.value.reference == reference


@pytest.mark.parametrize(
    "reference", ["a/f.onnx", "./a/f.onnx", "a//f.onnx", "a/./f.onnx", "a/f.onnx/"]
)
def test_resolves_plain_references(root: Path, reference: str) -> None:
    place = PathResolver(root).resolve(reference)
    assert (place.path, place.kind) == (root.resolve() / "a" / "f.onnx", PathKind.FILE)


@pytest.mark.parametrize(
    "name", ["console", "com10", "nul_", ".hidden", "a.b", "é", "模型", "a b", "x" * 255, "..x"]
)
def test_accepts_names_that_only_look_like_reserved_ones(name: str) -> None:
    assert why_not_portable(name) is None


@pytest.mark.parametrize("name", ["a/b", "a\\b", ".", "..", ""])
def test_a_name_is_one_segment(name: str) -> None:
    assert why_not_a_name(name)


@given(
    st.text("aA.:/\\ \x00\x9f\u200e?é1", max_size=6) | st.sampled_from(["con", "nul.x", "x" * 256])
)
@settings(max_examples=300, deadline=None)
def test_every_name_that_may_be_used_is_a_path_that_may_be_used(name: str) -> None:
    resolver = PathResolver(Path(__file__).parent)
    if resolver.why_not_a_name(name) is None:
        assert why_not_portable(name) is None
        assert resolver.locate(name).path == str(Path(__file__).resolve().parent / name)


def test_says_what_is_at_a_path(root: Path) -> None:
    resolver = PathResolver(root)
    kinds = [
        resolver.resolve(reference).kind
        for reference in ("a", "a/f.onnx", "a/none", "a/f.onnx/x", "none/x")
    ]
    assert kinds == [
        PathKind.DIRECTORY,
        PathKind.FILE,
        PathKind.MISSING,
        PathKind.MISSING,
        PathKind.MISSING,
    ]


def test_resolves_against_a_base(root: Path) -> None:
    assert PathResolver(root).resolve("f.onnx", base="a").kind is PathKind.FILE


def test_reports_the_target_of_a_link_inside_the_package(root: Path) -> None:
    link(root / "alias", "a")
    assert PathResolver(root).resolve("alias/f.onnx").path == root.resolve() / "a" / "f.onnx"


def test_the_root_itself_may_be_a_link(root: Path) -> None:
    link(root.parent / "link", root)
    assert (
        PathResolver(root.parent / "link").resolve("a/f.onnx").path
        == root.resolve() / "a" / "f.onnx"
    )


@pytest.mark.parametrize("target", ["../p2/secret", "../p2", "/", "../../real/p2"])
def test_refuses_links_that_leave_even_to_a_sibling_with_the_same_prefix(
    root: Path, target: str
) -> None:
    link(root / "out", target)
    with pytest.raises(
        PathEscapesPackageError, match="leads out of the package through a symbolic link"
    ):
        PathResolver(root).resolve("out")


def test_refuses_a_file_behind_a_directory_link_that_leaves(root: Path) -> None:
    link(root / "out", "../p2")
    for reference in ("out/secret", "out/not-there"):
        with pytest.raises(PathEscapesPackageError, match="leads out") as caught:
            PathResolver(root).resolve(reference)
        assert caught.value.reference == reference


def test_refuses_a_dangling_link_that_leaves(root: Path) -> None:
    link(root / "out", "../not-there-yet")
    with pytest.raises(PathEscapesPackageError, match="leads out"):
        PathResolver(root).resolve("out")


def test_a_loop_of_links_leads_nowhere(root: Path) -> None:
    link(root / "x", "y")
    link(root / "y", "x")
    assert PathResolver(root).resolve("x").kind is PathKind.MISSING


@given(
    st.text(max_size=20)
    | st.lists(st.sampled_from(["..", ".", "a", "/", "\\", "C:", "\x00", "con", " "])).map("".join)
)
@settings(max_examples=300, deadline=None)
def test_no_text_resolves_to_a_place_outside(reference: str) -> None:
    root = Path(__file__).parent
    try:
        place = PathResolver(root).resolve(reference)
    except PathEscapesPackageError:
        return
    assert place.path.is_relative_to(root.resolve())


@pytest.mark.parametrize("reserved", ["con", "PRN", "aux", "Nul", "com1", "LPT9", "conin$"])
@pytest.mark.parametrize("where", ["{}", "{}.txt", "{}.tar.gz", "a/{}", "{}/a", "a/{}.b/c"])
def test_no_shortcut_lets_a_reserved_name_through(reserved: str, where: str) -> None:
    assert why_not_portable(where.format(reserved)) == "is a device's name on Windows"
