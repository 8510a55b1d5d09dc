"""``compat="onnxruntime-1.31"`` against onnxruntime 1.31 itself: the same packages, the same verdicts.

The expectations of the tables play no part here: what the library says of a package is asked of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ortpkg.errors import PackageError
from ortpkg.package.package_info import PackageInfo
from ortpkg.package.reader import open_package
from tests.interop.case import STABLE_LINES, Case
from tests.interop.component_open_cases import OPEN_CASES
from tests.interop.component_run_cases import RUN_CASES
from tests.interop.conftest import PackageWriter, ReleaseStarter
from tests.interop.packages import Folder, Tree, component_manifest
from tests.interop.protocol import Eps, Outcome, Stage, Walk
from tests.interop.release import Release
from tests.interop.wheels import installed_release, minor_of

COMPAT = "onnxruntime-1.31"

pytestmark = pytest.mark.interop

CASES = [case for case in (*OPEN_CASES, *RUN_CASES) if STABLE_LINES[0] in case.lines]


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


def disagreement(release: Release, root: Path, component: str | None = None, eps: Eps = Eps()) -> str:  # noqa: B008
    """In what the release and our reader differ over the package at ``root``; "" if in nothing."""
    theirs = release.walk(Walk(root=str(root), component=component, eps=eps, session=False))
    they_open = opened_by_the_release(theirs)
    try:
        package = open_package(root, compat=COMPAT)
    except PackageError as error:
        return "" if they_open is None else f"the release opens it, we say: {error}"
    if they_open is None:
        return f"we open it, the release says: {theirs.refusal}"
    if opened_by_us(package) != they_open:
        return f"we see {opened_by_us(package)}, the release sees {they_open}"
    if package.schema_version is None or package.schema_version[0] != theirs.schema_version:
        return f"we see version {package.schema_version}, the release sees {theirs.schema_version}"
    if theirs.variant is None:
        return ""
    variant = next(each for info in package.components for each in info.variants if each.name == theirs.variant)
    ours = str(variant.directory) if variant.has_directory else ""
    return "" if ours == theirs.directory else f"we say {ours}, the release says {theirs.directory}"


@pytest.fixture
def release_1_31(start_release: ReleaseStarter) -> Release:
    """The installed release, which must be of the line that is compared with."""
    assert minor_of(installed_release()) == STABLE_LINES[0], "constraints.txt pins the line that COMPAT names"
    return start_release(installed_release())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_compat_mode_opens_what_the_release_opens(
    release_1_31: Release, write_package: PackageWriter, case: Case
) -> None:
    if os.name == "nt" and case.needs_posix:
        pytest.skip("links, or names that Windows has not")

    assert disagreement(release_1_31, write_package(case.tree), case.component, case.eps) == ""


def test_compat_mode_agrees_on_every_change_of_one_value(release_1_31: Release, write_package: PackageWriter) -> None:
    """A package with every key that there is, one value replaced, dropped or added at a time."""
    root = write_package(_EVERYTHING)
    found = {}
    for document in ("manifest.json", "parts/component.json", "parts/v/ort.json"):
        original = json.loads((root / document).read_text(encoding="utf-8"))
        for change, changed in _changes(original):
            (root / document).write_text(json.dumps(changed), encoding="utf-8")
            found[f"{document}{change}"] = disagreement(release_1_31, root)
        (root / document).write_text(json.dumps(original), encoding="utf-8")

    assert len(found) > 500
    differing = {change: reason for change, reason in found.items() if reason and change not in KNOWN_DIFFERENCES}
    assert "\n".join(f"{change}: {reason}" for change, reason in differing.items()) == ""
    assert all(found[change] for change in KNOWN_DIFFERENCES), "a known difference is gone: take it off the list"


_ASSET = "sha256:" + "0123456789abcdef" * 4

#: Changes over which compat mode still differs from the release, each with the reason.
KNOWN_DIFFERENCES = {
    # The folder of this override is missing, and its path ends with a slash, which the release then keeps: so no file
    # of the asset lies inside of it by the release's comparison of texts, and it refuses a package that we open.
    f"manifest.json/shared_assets/{_ASSET} := {f'{_ASSET}/'!r}",
}
_EVERYTHING: Tree = {
    "manifest.json": component_manifest(
        {
            "inline": {
                "component_name": "inline",
                "variants": {
                    "w": {
                        "variant_directory": "parts/w",
                        "ep": "CPUExecutionProvider",
                        "device": "cpu",
                        "compatibility_string": "x",
                        "executor_info": {"ort": {"model_file": f"{_ASSET}/m.onnx"}, "other": {"a": 1}},
                        "additional_metadata": {"b": [1]},
                    }
                },
                "additional_metadata": 1,
            },
            "outside": "parts",
        },
        layout="portable",
        package_name="p",
        package_version="1",
        description="d",
        shared_assets={_ASSET: "parts/asset"},
        additional_metadata={"c": None},
    ),
    "parts/component.json": {"variants": {"v": {"ep": "QNNExecutionProvider", "executor_info": {"ort": "ort.json"}}}},
    "parts/v/ort.json": {
        "model_file": "m.onnx",
        "session_options": {"session.model_external_initializers_file_folder_path": "x", "k": "v"},
        "provider_options": {"k": "v"},
    },
    "parts/w": Folder(),
}
_REPLACEMENTS: tuple[Any, ...] = (
    None, True, 0, 1, -1, 1.5, "", "1.0", "parts", "parts/", "./parts/v", "..", "parts/../parts", "/x", "a\0b", "é",
    _ASSET, f"{_ASSET}/", f"{_ASSET}//x", f"{_ASSET}/../x", "sha256:0", [], [1], {}, {"k": 1}, {"k": "v"}, {"": {}},
)  # fmt: skip


def _changes(document: Any, pointer: str = "") -> Iterator[tuple[str, Any]]:
    """Each document that differs from ``document`` in one value, with a text that says how."""
    for value in _REPLACEMENTS:
        yield f"{pointer} := {value!r}", value
    if not isinstance(document, dict):
        return
    yield f"{pointer} + unknown", document | {"unknown": 1}
    for key, value in document.items():
        yield f"{pointer}/{key} dropped", {name: each for name, each in document.items() if name != key}
        for change, changed in _changes(value, f"{pointer}/{key}"):
            yield change, document | {key: changed}
