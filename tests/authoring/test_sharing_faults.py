"""dedup and add_variant killed, or out of disk space, at every file operation."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from ortpkg.authoring.create import add_variant
from ortpkg.authoring.package_checks import validate
from ortpkg.authoring.sharing.dedup import dedup
from ortpkg.foundations.errors import Severity
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.package.integrity.digest_check import check_digests
from ortpkg.package.reader import open_package
from tests.authoring.weight_models import (
    Array,
    assert_same_results,
    copy_of,
    edit_metadata,
    make_model,
    make_package,
    results_of,
    weight,
)
from tests.package.failing_operations import (
    Command,
    OncePerState,
    content_of,
    stopped_at_each_operation,
)

pytestmark = pytest.mark.usefixtures("warm_processes")

WEIGHTS = {"w0": weight(0), "w1": weight(1)}


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Two variants with equal weights, packed differently, and a third with a weight in common."""
    models = {
        "a": make_model(tmp_path / "a", WEIGHTS),
        "b": make_model(tmp_path / "b", WEIGHTS, location="data/b.bin", packing=["w1", "w0"]),
        "c": make_model(tmp_path / "c", {"w0": weight(0), "own": weight(5)}),
    }
    return make_package(tmp_path / "old.ortpackage", models)


@pytest.fixture(params=["dedup", "by checksum", "add", "add beside a model that is not named"])
def command(request: pytest.FixtureRequest, tmp_path: Path, old: Path) -> Command:
    new = make_model(tmp_path / "new", {"w1": weight(1), "n": weight(6)}, location="n.bin")

    def add(root: Path, operations: FileOperations) -> object:
        return add_variant(
            root,
            new,
            variant="new",
            share_weights=True,
            operations=operations,
            notify=lambda text: None,
        )

    if request.param == "add beside a model that is not named":
        edit_metadata(old, lambda variants: [body.pop("model_file") for body in variants.values()])
    commands: dict[str, Command] = {
        "dedup": lambda root, operations: dedup(root, operations=operations),
        "by checksum": lambda root, operations: dedup(
            root, layout="shared-weights", operations=operations
        ),
    }
    return commands.get(request.param, add)


def places_of(root: Path) -> dict[str, str]:
    """What a reader sees: variant → its model file."""
    (component,) = open_package(root).components
    return {
        each.name: str(each.model_path and each.model_path.relative_to(root))
        for each in component.variants
    }


def errors_of(root: Path) -> list[str]:
    return [str(finding) for finding in validate(root) if finding.severity is Severity.ERROR]


def with_results_of(before: dict[str, list[Array]], root: Path) -> None:
    found = results_of(root)
    assert_same_results(before, {name: found[name] for name in before})


@pytest.mark.sampled(2)
@pytest.mark.requirement("K23")
def test_killed_at_any_file_operation_there_is_the_old_or_the_new_package_and_running_again_completes(
    tmp_path: Path, old: Path, command: Command
) -> None:
    whole = copy_of(old, "whole")
    command(whole, FileOperations())
    new, before, after = content_of(whole), places_of(old), places_of(whole)
    results = results_of(old)
    assert before != after

    outcomes: list[str] = []
    # Part-written files are those of test_rewriting_faults; here they would take five seconds.
    for root, _ in stopped_at_each_operation(
        old, tmp_path / "killed", command, kill=True, in_pieces=False
    ):
        assert places_of(root) in (before, after)
        assert errors_of(root) == []
        outcome = "new" if places_of(root) == after else "old"
        if outcome not in outcomes or len(outcomes) % 10 == 0:
            with_results_of(results, root)
        outcomes.append(outcome)
        if outcome == "old":
            command(root, FileOperations())
            assert content_of(root) == new
    assert outcomes == sorted(outcomes, reverse=True)
    assert set(outcomes) == {"old", "new"}


@pytest.mark.sampled(2)
def test_out_of_disk_space_at_any_file_operation_there_is_the_old_or_the_new_package(
    tmp_path: Path, old: Path, command: Command
) -> None:
    whole = copy_of(old, "whole")
    command(whole, FileOperations())
    new, before = content_of(whole), places_of(old)
    models = {name for name in content_of(old) if not name.endswith(".json")}
    errors_at = OncePerState(errors_of)

    for root, is_done in stopped_at_each_operation(old, tmp_path / "full", command, kill=False):
        if is_done:
            assert content_of(root) == new
        else:
            assert places_of(root) == before
            assert errors_at(root) == []
            assert {name for name in content_of(root) if not name.endswith(".json")} == models


@pytest.mark.parametrize("operation", ["replace:file0", "replace:metadata.json", "unlink:b.bin"])
def test_a_process_that_dies_leaves_a_valid_package(
    old: Path, locks_of_this_test: Path, operation: str
) -> None:
    kind, _, name = operation.partition(":")
    script = textwrap.dedent(f"""
        import os, pathlib, sys
        from ortpkg.authoring.sharing.dedup import dedup
        from ortpkg.foundations.storage import package_lock
        from ortpkg.foundations.storage.file_operations import FileOperations

        class Dying(FileOperations):
            def before(self, operation, path):
                if operation == {kind!r} and path.name == {name!r}:
                    os._exit(9)
            def replace(self, source, target):
                self.before("replace", source)
                super().replace(source, target)

        package_lock.locks_directory = lambda: pathlib.Path(sys.argv[2])
        dedup(sys.argv[1], operations=Dying())
    """)
    results = results_of(old)

    died = subprocess.run(
        [sys.executable, "-c", script, str(old), str(locks_of_this_test)],
        check=False,
        cwd=Path(__file__).resolve().parents[2],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])},
    )

    assert died.returncode == 9
    assert errors_of(old) == []
    with_results_of(results, old)
    dedup(old)
    assert errors_of(old) == []
    assert check_digests(old) == ()
    with_results_of(results, old)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kill", [True, False], ids=["killed", "out of disk space"])
def test_several_components_change_together(old: Path, tmp_path: Path, kill: bool) -> None:
    for name in ("d", "e"):
        model = make_model(tmp_path / name, WEIGHTS, location=f"{name}.bin")
        add_variant(
            old, model, component="second", variant=name, ep="cpu" if name == "d" else "cuda"
        )
    whole, results = copy_of(old, "whole"), results_of(old)
    dedup(whole)
    new = content_of(whole)
    errors_at = OncePerState(errors_of)

    def command(root: Path, operations: FileOperations) -> object:
        return dedup(root, operations=operations)

    def completed(root: Path) -> dict[str, bytes]:
        dedup(root)
        return content_of(root)

    content_when_completed = OncePerState(completed)
    for root, is_done in stopped_at_each_operation(
        old, tmp_path / "stopped", command, kill=kill, in_pieces=False
    ):
        assert errors_at(root) == []
        assert (content_of(root) if is_done else content_when_completed(root)) == new
    with_results_of(results, whole)
