"""Commands that rewrite a package in place, killed or out of disk space at every file operation."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path

import pytest

from ortpkg.authoring.convert import convert
from ortpkg.authoring.create import add_variant, create
from ortpkg.authoring.merge import merge
from ortpkg.authoring.new_variant import NewVariant
from ortpkg.authoring.slim import slim
from ortpkg.foundations.errors import AuthoringError
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.package.integrity.digest_check import check_digests
from ortpkg.package.package_info import PackageFormat
from ortpkg.package.reader import open_package
from tests.authoring.conftest import ModelMaker
from tests.package.failing_operations import (
    Command,
    OncePerState,
    content_of,
    stopped_at_each_operation,
)


@pytest.fixture
def models(make_model: ModelMaker) -> list[NewVariant]:
    return [NewVariant.for_cpu(make_model("a")), NewVariant(model=make_model("b"), ep="cuda")]


def state_of(root: Path) -> tuple[object, ...]:
    """What a reader sees; the documents are valid, and no file is damaged."""
    assert check_digests(root) == ()
    package = open_package(root)
    variants = [
        (each.name, variant.name) for each in package.components for variant in each.variants
    ]
    return package.format, *variants


def check_every_fault(
    old: Path, command: Command, *, between: tuple[object, ...] | None = None
) -> None:
    """A kill and a full disk at each operation leave the old or new package, and a rerun completes.

    ``between``: what a reader may see too, where several documents are replaced.
    """
    whole = Path(shutil.copytree(old, old.parent / "whole"))
    command(whole, FileOperations())
    new, before, after = content_of(whole), state_of(old), state_of(whole)
    assert before != after

    def completed(root: Path) -> dict[str, bytes]:
        # It refuses where only tidying up was left, which every command begins with.
        with contextlib.suppress(AuthoringError):
            command(root, FileOperations())
        return content_of(root)

    content_when_completed = OncePerState(completed)
    for kill in (True, False):
        folder = old.parent / f"stopped-{kill}"
        for root, is_done in stopped_at_each_operation(old, folder, command, kill=kill):
            if is_done:
                assert content_of(root) == new
            else:
                assert state_of(root) in (before, after, between)
            if content_of(root) != new:
                assert content_when_completed(root) == new


@pytest.mark.requirement("K18")
@pytest.mark.parametrize(
    ("origin", "target"), [("component", "universal"), ("universal", "metadata")]
)
def test_convert(tmp_path: Path, models: list[NewVariant], origin: str, target: str) -> None:
    old = create(tmp_path / "old", models, form=origin).root

    check_every_fault(old, lambda root, operations: convert(root, target, operations=operations))


@pytest.mark.requirement("K18")
def test_slim(tmp_path: Path, models: list[NewVariant]) -> None:
    old = create(tmp_path / "old", models).root

    check_every_fault(
        old,
        lambda root, operations: slim(root, devices=["cpu"], eps=["cpu"], operations=operations),
    )


@pytest.mark.requirement("K18")
@pytest.mark.requirement("K19")
def test_merge(tmp_path: Path, models: list[NewVariant], make_model: ModelMaker) -> None:
    """Two components change, and samples.json comes: one commit point for all of it."""
    old = create(tmp_path / "old", models[:1], name="m").root
    add_variant(old, models[0].model, component="second", ep="cpu", notify=lambda _: None)
    other = create(tmp_path / "other", models[1:], name="m").root
    add_variant(other, make_model("c"), component="second", ep="cuda", notify=lambda _: None)
    (other / "samples").mkdir()
    (other / "samples/in.npz").write_bytes(b"arrays")
    sample = {"name": "s", "component": "model", "inputs": "in.npz"}
    (other / "samples/samples.json").write_text(
        json.dumps({"schema_version": "1.0", "samples": [sample]})
    )
    (other / "digests.json").unlink()

    check_every_fault(
        old,
        lambda root, operations: merge(root, other, operations=operations, notify=lambda _: None),
        between=(PackageFormat.UNIVERSAL, ("model", "a"), ("model", "b"), ("second", "a")),
    )
