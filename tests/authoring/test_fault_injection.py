"""add_variant, remove_variant and create, killed or out of disk space at every file operation."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from ortpkg.authoring.create import add_variant, create, remove_variant
from ortpkg.authoring.new_variant import NewVariant
from ortpkg.authoring.package_checks import validate
from ortpkg.foundations.errors import AuthoringError, Severity
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.package.reader import open_package
from tests.authoring.conftest import ModelMaker
from tests.package.failing_operations import (
    Command,
    FailingOperations,
    Killed,
    content_of,
    stopped_at_each_operation,
)

pytestmark = pytest.mark.usefixtures("warm_processes")


@pytest.fixture
def old(tmp_path: Path, make_model: ModelMaker) -> Path:
    """A package with two variants of one component, and one of another."""
    root = tmp_path / "old.ortpackage"
    create(root, [NewVariant.for_cpu(make_model("a")), NewVariant.for_gpu(make_model("b"))])
    add_variant(root, make_model("c"), component="second")
    return root


@pytest.fixture(
    params=["add a variant", "add a component", "remove a variant", "remove a component"]
)
def command(request: pytest.FixtureRequest, make_model_with_data: ModelMaker) -> Command:
    model = make_model_with_data("big", location="data/weights.bin")
    commands: dict[str, Command] = {
        "add a variant": lambda root, operations: add_variant(
            root, model, component="model", operations=operations
        ),
        "add a component": lambda root, operations: add_variant(
            root, model, component="third", operations=operations
        ),
        "remove a variant": lambda root, operations: remove_variant(
            root, "a", component="model", operations=operations
        ),
        "remove a component": lambda root, operations: remove_variant(
            root, "c", component="second", operations=operations
        ),
    }
    return commands[request.param]


def names_of(root: Path) -> dict[str, list[str]]:
    """What a reader sees: component → variants."""
    return {
        each.name: [variant.name for variant in each.variants]
        for each in open_package(root).components
    }


def errors_of(root: Path) -> list[str]:
    return [str(finding) for finding in validate(root) if finding.severity is Severity.ERROR]


def copy_of(package: Path) -> Path:
    return Path(shutil.copytree(package, package.parent / "copy.ortpackage"))


@pytest.mark.sampled(2)
@pytest.mark.requirement("K18")
def test_killed_at_any_file_operation_there_is_the_old_or_the_new_package_and_running_again_completes(
    tmp_path: Path, old: Path, command: Command
) -> None:
    whole = copy_of(old)
    command(whole, FileOperations())
    new, before, after = content_of(whole), names_of(old), names_of(whole)
    assert before != after

    outcomes = []
    for root, _ in stopped_at_each_operation(old, tmp_path / "killed", command, kill=True):
        assert names_of(root) in (before, after)
        assert errors_of(root) == []
        outcomes.append("new" if names_of(root) == after else "old")
        if outcomes[-1] == "old":
            command(root, FileOperations())
            assert content_of(root) == new
    assert outcomes == sorted(outcomes, reverse=True)
    assert set(outcomes) == {"old", "new"}


@pytest.mark.sampled(2)
def test_out_of_disk_space_at_any_file_operation_there_is_exactly_the_old_or_the_new_package(
    tmp_path: Path, old: Path, command: Command
) -> None:
    whole = copy_of(old)
    command(whole, FileOperations())
    contents = {True: content_of(whole), False: content_of(old)}

    for root, is_done in stopped_at_each_operation(old, tmp_path / "full", command, kill=False):
        assert content_of(root) == contents[is_done]


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "out of disk space"])
def test_create_makes_a_whole_package_or_none(
    tmp_path: Path, make_model: ModelMaker, kill: bool
) -> None:
    models = [NewVariant.for_cpu(make_model("a")), NewVariant.for_npu(make_model("b"))]
    counting = FailingOperations()
    create(tmp_path / "whole" / ".." / "whole.ortpackage", models, name="p", operations=counting)
    new = content_of(tmp_path / "whole.ortpackage")

    root = tmp_path / "p.ortpackage"
    for index in counting.faults(kill=kill)[:-1]:  # the last one makes durable what is done
        with pytest.raises((Killed, AuthoringError)):
            create(root, models, operations=FailingOperations(index, kill=kill))
        assert not root.exists()
        create(root, models)
        assert content_of(root) == new
        shutil.rmtree(root)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["models", "whole.ortpackage"]


@pytest.mark.parametrize(
    "operation", ["fsync", "replace:digests.json", "replace:metadata.json", "remove_directory"]
)
def test_a_process_that_dies_leaves_no_lock_and_a_valid_package(
    old: Path, make_model: ModelMaker, locks_of_this_test: Path, operation: str
) -> None:
    kind, _, name = operation.partition(":")
    script = textwrap.dedent(f"""
        import os, pathlib, sys
        from ortpkg.authoring.create import add_variant
        from ortpkg.foundations.storage import package_lock
        from ortpkg.foundations.storage.file_operations import FileOperations

        class Dying(FileOperations):
            def before(self, operation, path):
                if operation == {kind!r} and path.name.endswith({name!r}):
                    os._exit(9)

        package_lock.locks_directory = lambda: pathlib.Path(sys.argv[3])
        add_variant(sys.argv[1], sys.argv[2], component="model", operations=Dying())
    """)
    model = make_model("new")

    died = subprocess.run(
        [sys.executable, "-c", script, str(old), str(model), str(locks_of_this_test)],
        check=False,
        cwd=Path(__file__).resolve().parents[2],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])},
    )

    assert died.returncode == 9
    assert errors_of(old) == []
    if operation == "remove_directory":
        assert names_of(old)["model"] == ["a", "b", "new"]
    else:
        assert add_variant(old, model, component="model").component("model") is not None
    assert errors_of(old) == []
