"""A package that a command changes while it is validated is no damaged one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import ortpkg
from ortpkg.authoring.checks.checked_package import CheckedPackage
from ortpkg.foundations.errors.finding import Severity

_DIGITS = Path(__file__).resolve().parents[2] / "sample_packages" / "digits.ortpackage"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return Path(shutil.copytree(_DIGITS, tmp_path / "digits.ortpackage"))


def errors_of(package: Path) -> list[str]:
    findings = ortpkg.validate(package)
    return [str(finding) for finding in findings if finding.severity is Severity.ERROR]


def changing(monkeypatch: pytest.MonkeyPatch, package: Path, times: int) -> list[str]:
    """Edit the package between its documents and its checks, the first ``times`` times."""
    made: list[str] = []
    plain = CheckedPackage.of

    def of(*arguments: object, **keywords: object) -> CheckedPackage:
        if len(made) < times:
            made.append(f"the {len(made)} time")
            ortpkg.edit(package, ortpkg.PackageEdits(description=made[-1]))
        return plain(*arguments, **keywords)  # type: ignore[arg-type]

    monkeypatch.setattr(CheckedPackage, "of", of)
    return made


@pytest.mark.parametrize("times", [1, 3])
def test_a_package_that_is_edited_meanwhile_is_checked_again(
    monkeypatch: pytest.MonkeyPatch, package: Path, times: int
) -> None:
    made = changing(monkeypatch, package, times)
    assert errors_of(package) == []
    assert len(made) == times


def test_real_damage_is_found_while_nobody_changes_anything(package: Path) -> None:
    (package / "README.md").write_text("forged")
    assert len(errors_of(package)) == 1
