"""Our reading of onnxruntime, case by case, against the releases themselves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.case import Case, Refused
from tests.interop.component_open_cases import OPEN_CASES
from tests.interop.component_run_cases import RUN_CASES
from tests.interop.conftest import PackageWriter
from tests.interop.metadata_cases import METADATA_CASES
from tests.interop.protocol import FloatTensor, Outcome, Walk
from tests.interop.release import Release
from tests.interop.wheels import minor_of, releases_under_test

pytestmark = pytest.mark.interop

CASES = (*OPEN_CASES, *RUN_CASES, *METADATA_CASES)
FEED = FloatTensor(shape=(1,), elements=(1.0,))


def _released_cases() -> Iterator[Any]:
    """Every case with every release under test that it holds for."""
    for release in releases_under_test():
        for case in CASES:
            if minor_of(release) in case.lines:
                posix = pytest.mark.skipif(
                    os.name == "nt" and case.needs_posix,
                    reason="links, or names that Windows has not",
                )
                yield pytest.param(release, case, id=f"{release}-{case.id}", marks=posix)


@pytest.mark.parametrize(("release", "case"), list(_released_cases()), indirect=["release"])
def test_release_does_what_we_say_of_it(
    release: Release, write_package: PackageWriter, case: Case
) -> None:
    root = write_package(case.tree)

    outcome = release.walk(walk_of(case, root))

    assert outcome.crash == ""
    check_refusal(outcome, case.refused)
    check_references(outcome, case, root)
    if case.variant is not None:
        assert outcome.variant == case.variant
    if case.directory is not None:
        assert outcome.directory == str(root / case.directory)
    if case.offset is not None:
        assert outcome.outputs == {"y": (FEED.elements[0] + case.offset,)}


def walk_of(case: Case, root: Path) -> Walk:
    """The case as a question to a release."""
    return Walk(
        root=str(root),
        component=case.component,
        eps=case.eps,
        references=tuple(reference for reference, _ in case.references),
        session=case.session,
        own_options=case.own_options,
        feed=FEED,
    )


def check_refusal(outcome: Outcome, expected: Refused | None) -> None:
    if expected is None:
        assert outcome.refusal is None
        return
    assert outcome.refusal is not None, "it was accepted"
    assert (outcome.refusal.stage, outcome.refusal.code) == (expected.stage, expected.code), (
        outcome.refusal.message
    )
    assert expected.text in outcome.refusal.message


def check_references(outcome: Outcome, case: Case, root: Path) -> None:
    for found, (_, expected) in zip(outcome.references, case.references, strict=True):
        if isinstance(expected, Refused):
            assert found.startswith(f"error {expected.code}: ")
            assert expected.text in found
        else:
            assert found == str(root / expected)


def test_ids_of_cases_are_unique() -> None:
    ids = [case.id for case in CASES]

    assert len(ids) == len(set(ids))
