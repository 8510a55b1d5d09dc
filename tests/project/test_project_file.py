"""What a project wants, as its file says it, and what of that is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortpkg.distribution.project.project_file import WantedPackage, find_project
from ortpkg.foundations.errors import UsageError
from ortpkg.package.references.package_references import LayoutReference, OciReference

DIGITS = OciReference(host="models.example", repository="digits")


def write(folder: Path, text: str, name: str = "ortpkg.toml") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            '"oci://models.example/digits"',
            WantedPackage(name="digits", source=DIGITS, source_text=str(DIGITS)),
        ),
        (
            '"oci://models.example/digits:2"',
            WantedPackage(name="digits", source=DIGITS, source_text=str(DIGITS), tag="2"),
        ),
        (
            '{ from = "oci://models.example/digits", version = ">=1.2, <2" }',
            WantedPackage(
                name="digits", source=DIGITS, source_text=str(DIGITS), specifier="<2,>=1.2"
            ),
        ),
        (
            '{ from = "oci://models.example/digits", version = "*", variants = ["cpu"] }',
            WantedPackage(name="digits", source=DIGITS, source_text=str(DIGITS), variants=("cpu",)),
        ),
        (
            '{ from = "oci://models.example/digits", tag = "stable" }',
            WantedPackage(name="digits", source=DIGITS, source_text=str(DIGITS), tag="stable"),
        ),
    ],
)
def test_a_package_is_wanted(tmp_path: Path, value: str, expected: WantedPackage) -> None:
    project = find_project(write(tmp_path, f"[packages]\ndigits = {value}\n"))

    assert project is not None
    assert project.packages == {"digits": expected}
    assert project.folder == tmp_path


def test_a_layout_lies_beside_the_projects_file(tmp_path: Path) -> None:
    write(tmp_path, '[packages]\ndigits = "oci-layout:shared:2"\n')
    (tmp_path / "inner").mkdir()

    project = find_project(tmp_path / "inner")

    assert project is not None
    source = project.packages["digits"].source
    assert source == LayoutReference(directory=tmp_path / "shared")
    assert project.packages["digits"].tag == "2"


def test_profiles_are_names_or_files_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "phone.json").write_text("{}")
    write(
        tmp_path,
        '[packages]\n[profiles]\nphone = "phone.json"\nserver = "plain-server"\n',
    )

    project = find_project(tmp_path)

    assert project is not None
    assert project.profiles == {"phone": str(tmp_path / "phone.json"), "server": "plain-server"}


def test_pyproject_says_it_too(tmp_path: Path) -> None:
    text = '[tool.ortpkg.packages]\ndigits = "oci://models.example/digits"\n'

    project = find_project(write(tmp_path, text, "pyproject.toml"))

    assert project is not None
    assert list(project.packages) == ["digits"]


def test_a_project_without_packages_is_none(tmp_path: Path) -> None:
    assert find_project(write(tmp_path, 'policy = "prefer-npu"\n')) is None


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("packages = 3", "packages: a table"),
        ("[packages]\nDigits = 'oci://h/d'", "packages.Digits: a package's name"),
        ("[packages]\nd = 3", "packages.d: a reference"),
        ("[packages]\nd = { from = 3 }", "packages.d.from: a reference"),
        ("[packages]\nd = { version = '1' }", "packages.d.from"),
        ("[packages]\nd = 'oci://h'", "packages.d.from.*names no repository"),
        ("[packages]\nd = 'folder'", "packages.d.from.*not in a registry"),
        ("[packages]\nd = { from = 'oci://h/d', versoin = '1' }", "versoin.*did you mean"),
        ("[packages]\nd = { source = 'oci://h/d' }", "source.*the keys are from, version, tag"),
        ("[packages]\nd = { from = 'oci://h/d', version = 'new' }", "packages.d.version"),
        ("[packages]\nd = { from = 'oci://h/d', version = 2 }", "packages.d.version"),
        ("[packages]\nd = { from = 'oci://h/d:2', version = '>1' }", "one of the two"),
        ("[packages]\nd = { from = 'oci://h/d', tag = 'a/b' }", "packages.d.tag"),
        ("[packages]\nd = { from = 'oci://h/d', variants = 'cpu' }", "packages.d.variants"),
        (f"[packages]\nd = 'oci://h/d@sha256:{'a' * 64}'", "belongs into the lock"),
        ("[packages]\n[profiles]\na = 3", "profiles.a"),
    ],
)
def test_what_is_wrong_is_told_with_its_key(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        find_project(write(tmp_path, text))
