"""``compat="onnxruntime-1.31"``, or 1.32, against that release: the same verdicts and selections.

Sessions are compared in test_compat_sessions.py.

The expectations of the tables play no part here: what the library says of a package is asked of it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ortpkg.foundations.errors import PackageError
from ortpkg.package.package_info import ComponentInfo, PackageInfo
from ortpkg.package.reader import open_package
from tests.interop.case import STABLE_LINES, Case
from tests.interop.changed_packages import (
    EVERY_KEY_TREE,
    INSERTED_BYTES,
    PATHS_TREE,
    REFERENCES,
    changes_of,
    manifest_with_reference,
)
from tests.interop.compat_selection import select_here
from tests.interop.component_open_cases import OPEN_CASES
from tests.interop.component_run_cases import RUN_CASES
from tests.interop.conftest import PackageWriter
from tests.interop.protocol import Eps, Outcome, Stage, Walk
from tests.interop.release import Release

pytestmark = pytest.mark.interop

CASES = [case for case in (*OPEN_CASES, *RUN_CASES) if set(STABLE_LINES) & set(case.lines)]


def opened_by_the_release(outcome: Outcome) -> dict[str, dict[str, str | None]] | None:
    """Component → variant → EP, or None where it does not open."""
    assert outcome.crash == ""
    if outcome.refusal is not None and outcome.refusal.stage is Stage.OPEN:
        return None
    return {name: dict(variants) for name, variants in outcome.components.items()}


def opened_by_us(package: PackageInfo) -> dict[str, dict[str, str | None]]:
    """The same of our reader's result, as the release reports it: texts end at a NUL."""
    found: dict[str, dict[str, str | None]] = {}
    for component in package.components:
        eps = found[_until_nul(component.name)] = {}
        for variant in component.variants:
            assert variant.component_constraints is not None
            ep = variant.component_constraints.ep
            eps[_until_nul(variant.name)] = None if ep is None else _until_nul(ep)
    return found


def _until_nul(text: str) -> str:
    return text.partition("\0")[0]


def disagreement(
    release: Release,
    root: Path,
    component: str | None = None,
    eps: Eps = Eps(),  # noqa: B008
    *,
    compat: str | None = None,
) -> str:
    """In what the release and our reader differ over the package at ``root``; "" if in nothing.

    ``compat``: the name that our reader has for the release, where that is not its own.
    """
    compat = compat or release.compat
    theirs = release.walk(Walk(root=str(root), component=component, eps=eps, session=False))
    they_open = opened_by_the_release(theirs)
    try:
        package = open_package(root, compat=compat)
    except PackageError as error:
        return "" if they_open is None else f"the release opens it, we say: {error}"
    if they_open is None:
        return f"we open it, the release says: {theirs.refusal}"
    if opened_by_us(package) != they_open:
        return f"we see {opened_by_us(package)}, the release sees {they_open}"
    if package.schema_version is None or package.schema_version[0] != theirs.schema_version:
        return f"we see version {package.schema_version}, the release sees {theirs.schema_version}"
    return (
        ""
        if component is None
        else selection_disagreement(theirs, package.component(component), eps, compat)
    )


def selection_disagreement(
    theirs: Outcome, component: ComponentInfo | None, eps: Eps, policy: str
) -> str:
    """In what the release's selection and ours differ; "" if in nothing."""
    selection = None if component is None else select_here(component, policy, eps)
    best = None if selection is None else selection.best
    if best is None:
        return (
            ""
            if theirs.variant is None
            else f"we select nothing, the release selects {theirs.variant}"
        )
    if theirs.variant is None:
        return f"we select {best.variant.name}, the release says: {theirs.refusal}"
    directory = str(best.variant.directory) if best.variant.has_directory else ""
    ours = (_until_nul(best.variant.name), directory)
    return (
        ""
        if ours == (theirs.variant, theirs.directory)
        else f"we select {ours}, the release {theirs}"
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_compat_mode_opens_and_selects_what_the_release_does(
    stable_release: Release, write_package: PackageWriter, case: Case
) -> None:
    if os.name == "nt" and case.needs_posix:
        pytest.skip("links, or names that Windows has not")

    assert disagreement(stable_release, write_package(case.tree), case.component, case.eps) == ""


def test_compat_mode_agrees_on_every_change_of_one_value(
    stable_release: Release, write_package: PackageWriter
) -> None:
    """A package with every key that there is, one value replaced, dropped or added at a time."""
    root = write_package(EVERY_KEY_TREE)
    found = {}
    for document in ("manifest.json", "parts/component.json", "parts/v/ort.json"):
        original = json.loads((root / document).read_text(encoding="utf-8"))
        for change, changed in changes_of(original):
            (root / document).write_text(json.dumps(changed), encoding="utf-8")
            found[f"{document}{change}"] = disagreement(stable_release, root)
        (root / document).write_text(json.dumps(original), encoding="utf-8")

    assert len(found) > 500
    differing = {change: reason for change, reason in found.items() if reason}
    assert "\n".join(f"{change}: {reason}" for change, reason in differing.items()) == ""


def test_compat_mode_agrees_on_changed_bytes(
    stable_release: Release, write_package: PackageWriter
) -> None:
    """Byte sequences put in or replacing a byte at every position of the manifest."""
    manifest = (
        b'{"schema_version": "1.0", "components": {"c": {"variants": {"v": {"ep": "A"}}}},'
        b' "additional_metadata": [1.5e3, -0, true, null, "a\\u00e9\\n"]}'
    )
    root = write_package({"manifest.json": manifest})
    differing = {}
    for position in range(len(manifest) + 1):
        for inserted in INSERTED_BYTES[position % 8 :: 8]:
            for rest in (manifest[position:], manifest[position + 1 :]):
                changed = manifest[:position] + inserted + rest
                (root / "manifest.json").write_bytes(changed)
                reason = disagreement(stable_release, root)
                if reason:
                    differing[changed] = reason

    assert differing == {}


@pytest.mark.skipif(os.name == "nt", reason="links, and names that Windows has not")
@pytest.mark.parametrize("layout", ["portable", "installed"])
@pytest.mark.parametrize(
    "place", ["component", "variant_directory", "executor_info", "model_file", "folder", "asset"]
)
def test_compat_mode_agrees_on_every_path(
    stable_release: Release, write_package: PackageWriter, place: str, layout: str
) -> None:
    """The same paths and references in every place of a package that has one."""
    root = write_package(PATHS_TREE)
    references = [path.replace("ROOT", str(root)) for path in REFERENCES]
    found = {}
    for reference in references:
        manifest = manifest_with_reference(place, reference) | {"layout": layout}
        (root / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
        found[reference] = disagreement(stable_release, root, "c")

    differing = {path: reason for path, reason in found.items() if reason}
    assert "\n".join(f"{path}: {reason}" for path, reason in differing.items()) == ""
