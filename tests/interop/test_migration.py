"""migrate-check says what the release does with packages ortpkg writes, converts, merges."""

from __future__ import annotations

from pathlib import Path

import pytest

import ortpkg
from ortpkg import NewVariant
from ortpkg.package.package_info import PackageFormat
from tests.interop.packages import AZURE, Model
from tests.interop.protocol import Eps, FloatTensor, Walk
from tests.interop.release import Release

pytestmark = pytest.mark.interop

EPS = {None: Eps(), AZURE: Eps(appended=("AZURE",))}
FEED = FloatTensor(shape=(2,), elements=(1.0, 2.0))
OFFSETS = {"azure": 2.0, "cpu": 1.0, "other-cpu": 3.0}


def variants_of(folder: Path) -> list[NewVariant]:
    models = []
    for name, ep in (("azure", "azure"), ("cpu", "cpu"), ("other-cpu", "cpu")):
        path = folder / f"{name}.onnx"
        path.write_bytes(Model(OFFSETS[name]).serialized())
        models.append(NewVariant(model=path, ep=ep, device=None if ep == "azure" else "cpu"))
    return models


def _line_of(release: Release) -> int:
    """The place of its report: 1.26 and 1.27, 1.28 to 1.30, then one each."""
    return 0 if release.minor < 28 else 1 if release.minor < 31 else release.minor - 29


def assert_runs_as_foretold(release: Release, root: Path) -> None:
    """For each EP, the release runs the variant that is foretold, or refuses as is foretold."""
    reports = ortpkg.migrate_check(root)
    report = reports[_line_of(release)]
    for ep, eps in EPS.items():
        outcome = release.walk(Walk(root=str(root), component="c", eps=eps, feed=FEED))
        (choice,) = (each for each in report.choices if each.ep == ep and each.component == "c")
        if choice.variant is None:
            assert outcome.refusal is not None, (ep, choice)
        else:
            (output,) = outcome.outputs.values()
            assert output[0] - FEED.elements[0] == OFFSETS[choice.variant], (ep, choice)


@pytest.mark.parametrize("form", ["universal", "component", "metadata"])
def test_a_package_that_create_writes(release: Release, tmp_path: Path, form: str) -> None:
    root = ortpkg.create(tmp_path / "p", variants_of(tmp_path), component="c", form=form).root
    if not ortpkg.migrate_check(root)[_line_of(release)].opens:
        outcome = release.walk(Walk(root=str(root), component="c", eps=EPS[AZURE]))
        assert outcome.refusal is not None
        return

    assert_runs_as_foretold(release, root)


@pytest.mark.parametrize("origin", ["component", "metadata"])
def test_a_package_that_was_converted_to_universal(
    release: Release, tmp_path: Path, origin: str
) -> None:
    root = ortpkg.create(tmp_path / "p", variants_of(tmp_path), component="c", form=origin).root

    converted = ortpkg.convert(root, PackageFormat.UNIVERSAL, output=tmp_path / "q")

    assert_runs_as_foretold(release, converted.root)


def test_a_package_that_was_merged_and_slimmed(release: Release, tmp_path: Path) -> None:
    azure, *cpu = variants_of(tmp_path)
    a = ortpkg.create(tmp_path / "a", [azure], component="c", name="m").root
    b = ortpkg.create(tmp_path / "b", cpu, component="c", name="m", form="component").root

    merged = ortpkg.merge(a, b).root
    assert_runs_as_foretold(release, merged)
    ortpkg.slim(merged, variants=["azure", "other-cpu"])
    assert_runs_as_foretold(release, merged)
