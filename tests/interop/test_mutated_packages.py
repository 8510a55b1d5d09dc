"""Randomly changed packages, to the releases and to us: opened, selected, run or refused.

A few of them with every run of the tests, thousands with ``make interop``. A seed that found
something belongs into a table of cases as the one package that it was.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import onnx
import pytest
from onnx import numpy_helper

from ortpkg.foundations.errors import PackageError
from ortpkg.foundations.onnxruntime_releases import ONNXRUNTIME_1_27, ONNXRUNTIME_1_30
from ortpkg.package.package_info import PackageFormat
from ortpkg.package.reader import open_package
from ortpkg.selection.releases.release_1_27 import read_as_1_27
from tests.interop.case import WITH_AZURE, Case
from tests.interop.compat_selection import select_here
from tests.interop.conftest import PackageWriter, ReleaseStarter
from tests.interop.mutated_packages import COMPONENT_TREES, METADATA_TREES, mutated_packages
from tests.interop.packages import CPU, Tree
from tests.interop.protocol import Eps, FloatTensor, Walk
from tests.interop.release import Release
from tests.interop.test_compat import disagreement
from tests.interop.test_compat_sessions import our_walk, their_walk
from tests.interop.wheels import (
    ALL_RELEASES_VARIABLE,
    OTHER_RELEASES,
    minor_of,
    releases_under_test,
)

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(os.name == "nt", reason="links, and names that Windows has not"),
]

FEED = FloatTensor(shape=(1,), elements=(1.0,))
_IS_LARGE = os.environ.get(ALL_RELEASES_VARIABLE) == "1"
_SEED = 31
_COUNT = 3000 if _IS_LARGE else 100
_SESSION_COUNT = 1000 if _IS_LARGE else 30


def _older(lines: range) -> list[object]:
    fetched = releases_under_test()
    return [
        pytest.param(
            each, marks=pytest.mark.skipif(each not in fetched, reason="make interop fetches it")
        )
        for each in OTHER_RELEASES
        if minor_of(each) in lines
    ]


def differing(
    packages: Iterator[Tree],
    write_package: PackageWriter,
    differ: Callable[[Path, random.Random], str],
) -> str:
    """What ``differ`` says of each package, "" where it says nothing.

    Its chance goes with the package.
    """
    found = []
    for number, tree in enumerate(packages):
        root = write_package(tree)
        if reason := differ(root, random.Random(number)):
            documents = {
                path: content for path, content in tree.items() if isinstance(content, bytes)
            }
            found.append(f"{number}: {reason}\n    {documents}"[:3000])
        shutil.rmtree(root.parent)
    return "\n".join(found)


def test_releases_open_and_select_from_mutated_packages_what_we_say(
    stable_release: Release, write_package: PackageWriter
) -> None:
    def differ(root: Path, chance: random.Random) -> str:
        component = chance.choice(("c", "c", "inline"))
        return disagreement(stable_release, root, component, chance.choice((Eps(), WITH_AZURE)))

    assert differing(mutated_packages(COMPONENT_TREES, _SEED, _COUNT), write_package, differ) == ""


def test_releases_make_sessions_of_mutated_packages_as_we_do(
    stable_release: Release, write_package: PackageWriter
) -> None:
    def differ(root: Path, chance: random.Random) -> str:
        own_options = chance.choice((None, None, {"k": "v"}))
        case = Case(id="", says="", tree={}, component="c", session=True, own_options=own_options)
        walk = Walk(root=str(root), component="c", own_options=own_options, feed=FEED)
        theirs = their_walk(stable_release.walk(walk))
        stage, variant, output = our_walk(root, case, stable_release.compat)
        ours = stage, None if variant is None else variant.partition("\0")[0], output
        return "" if ours == theirs else f"we say {ours}, the release {theirs}"

    assert (
        differing(
            mutated_packages(COMPONENT_TREES, _SEED + 1, _SESSION_COUNT), write_package, differ
        )
        == ""
    )


def test_releases_open_every_mutated_package_of_its_generation_that_opens_strictly(
    stable_release: Release, write_package: PackageWriter
) -> None:
    opened, refused = [], []

    def differ(root: Path, _: random.Random) -> str:
        try:
            package = open_package(root)
        except PackageError:
            return ""
        if package.format is PackageFormat.METADATA:
            return ""
        opened.append(root)
        refusal = str(stable_release.walk(Walk(root=str(root))).refusal or "")
        if "Portable path" in refusal:  # 1.32 follows no link to a shared asset
            refused.append(root)
            return ""
        return refusal

    assert (
        differing(mutated_packages(COMPONENT_TREES, _SEED + 2, _COUNT), write_package, differ) == ""
    )
    assert len(opened) > _COUNT // 10
    assert len(refused) < len(opened) // 10
    assert not (refused and stable_release.minor == 31)


@pytest.mark.parametrize("version", _older(range(29, 31)))
def test_1_29_and_1_30_open_mutated_packages_as_we_say(
    start_release: ReleaseStarter, write_package: PackageWriter, version: str
) -> None:
    release = start_release(version)

    def differ(root: Path, _: random.Random) -> str:
        return disagreement(release, root, compat=ONNXRUNTIME_1_30)

    assert (
        differing(mutated_packages(COMPONENT_TREES, _SEED + 3, _COUNT), write_package, differ) == ""
    )


@pytest.mark.parametrize("version", _older(range(26, 28)))
def test_1_26_and_1_27_run_of_mutated_packages_what_we_foretell(
    start_release: ReleaseStarter, write_package: PackageWriter, version: str
) -> None:
    release = start_release(version)

    def differ(root: Path, chance: random.Random) -> str:
        eps = chance.choice(
            (WITH_AZURE, WITH_AZURE, Eps(), Eps(appended=("AZURE",), devices_of=(CPU,)))
        )
        outcome = release.walk(Walk(root=str(root), component="c", eps=eps, feed=FEED))
        message = outcome.crash or (outcome.refusal.message if outcome.refusal is not None else "")
        has_no_variant = "No suitable model variant" in message
        # Without an EP it fails before it looks at the package.
        is_blind = "No execution providers were provided" in message
        offset = outcome.outputs["y"][0] - FEED.elements[0] if outcome.outputs else None
        package, refusals = read_as_1_27(root)
        if package is None:
            is_right = offset is None and not has_no_variant
            return "" if is_right else f"we say {refusals}, the release {offset} {message}"
        selection = select_here(package.components[0], ONNXRUNTIME_1_27, eps)
        if selection.best is None:
            return (
                ""
                if has_no_variant or is_blind
                else f"we select nothing, the release {offset} {message}"
            )
        names = selection.unpredictable or (selection.best.variant.name,)
        models = {each.name: each.model_path for each in package.components[0].variants}
        possible = [_offset_of(models[name]) for name in names]
        is_right = offset in possible and not (has_no_variant or is_blind)
        return (
            ""
            if is_right
            else f"we select one of {names}: {possible}; the release {offset} {message}"
        )

    assert (
        differing(mutated_packages(METADATA_TREES, _SEED + 4, _COUNT), write_package, differ) == ""
    )


def _offset_of(model: Path | None) -> float | None:
    """What a session on the model adds; None for what is no model."""
    assert model is not None
    try:
        loaded = onnx.load_model(str(model))
        return float(numpy_helper.to_array(loaded.graph.initializer[0], str(model.parent))[0])
    except Exception:  # noqa: BLE001 - whatever a library raises over what is no model
        return None


@pytest.mark.parametrize("compat", [None, ONNXRUNTIME_1_27])
def test_no_mutated_package_breaks_a_reader(
    write_package: PackageWriter, compat: str | None
) -> None:
    """Each is opened or refused; any other error ends the test."""

    def differ(root: Path, _: random.Random) -> str:
        if compat == ONNXRUNTIME_1_27:
            package, refusals = read_as_1_27(root)
            return "" if (package is None) == bool(refusals) else "neither a package nor a reason"
        with contextlib.suppress(PackageError):
            open_package(root, compat=compat)
        return ""

    trees = METADATA_TREES if compat == ONNXRUNTIME_1_27 else (*COMPONENT_TREES, *METADATA_TREES)
    assert differing(mutated_packages(trees, _SEED + 5, _COUNT), write_package, differ) == ""


def test_the_same_seed_gives_the_same_packages() -> None:
    first, second = (list(mutated_packages(METADATA_TREES, 7, 50)) for _ in range(2))

    assert first == second
