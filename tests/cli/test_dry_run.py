"""--dry-run and --overwrite, with every command that changes files."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ortpkg.authoring.create import create
from ortpkg.cli.app import COMMANDS, run
from ortpkg.foundations.errors import AuthoringError
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.foundations.storage.rehearsal import rehearse
from ortpkg.package.integrity.digests import STAGING_PREFIX
from tests.cli.conftest import HelpOf, RunCommand, save_scale
from tests.package.failing_operations import content_of

pytestmark = pytest.mark.usefixtures("warm_processes")

MakeModel = Callable[..., Path]
MODELS = ("double", "second", "third")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What :func:`folder` is a copy of."""
    folder = tmp_path_factory.mktemp("made")
    with contextlib.chdir(folder):
        first, second, third = (save_scale(folder / f"{name}.onnx") for name in MODELS)
        for line in (
            f"create p --cpu {first.name} --variant cuda={second.name}",
            f"create other --cpu {third.name} --name p",
            "pack p -o packed.ortpkg",
        ):
            assert run(["-q", *line.split()]) == 0, line
    shutil.copytree(folder / "p", folder / "unrecorded")
    (folder / "unrecorded/digests.json").unlink()
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages and models to change.

    ``p`` with the variants ``double`` and ``second``, ``other``, ``packed.ortpkg``, ``unrecorded``
    (``p`` without digests.json), and three models.
    """
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


CHANGES = (
    "create new --cpu double.onnx",
    "create new.ortpkg --cpu double.onnx",
    "create p --cpu double.onnx --overwrite",
    "init new",
    "add-variant p third.onnx --ep qnn",
    "remove-variant p second",
    "remove-variant unrecorded second",
    "edit p --description better",
    "verify unrecorded --record",
    "convert p --to metadata --in-place",
    "convert p --to metadata -o new",
    "convert p --to metadata -o other --overwrite",
    "merge p other -o new",
    "merge other --into p",
    "slim p --ep cpu --in-place",
    "slim p --ep cpu -o new",
    "pack p -o new.ortpkg",
    "pack other -o packed.ortpkg --overwrite",
    "unpack packed.ortpkg -o new",
    "unpack packed.ortpkg -o other --overwrite",
    "compile-models double.onnx,third.onnx -e llvm -o new",
)


@pytest.mark.parametrize("words", CHANGES)
def test_a_dry_run_foretells_what_changes_and_changes_nothing(
    ortpkg: RunCommand, folder: Path, words: str
) -> None:
    before = content_of(folder)
    done = ortpkg(*words.split(), "--dry-run", "--json")
    assert done.code == 0, done.err
    assert content_of(folder) == before
    foretold = done.json
    root = Path(foretold["root"]).relative_to(folder)

    assert ortpkg(*words.split()).code == 0
    after = content_of(folder)

    def named(files: list[str]) -> set[str]:
        return {(root / file).as_posix() for file in files}

    added, changed = named([each["file"] for each in foretold["adds"]]), named(foretold["changes"])
    removed = {
        file
        for file in before
        if any(Path(file).is_relative_to(each) for each in named(foretold["removes"]))
    }
    assert added == after.keys() - before.keys()
    assert removed == before.keys() - after.keys()
    really = {file for file in before.keys() & after.keys() if before[file] != after[file]}
    assert really <= changed
    for each in foretold["adds"]:
        name = (root / each["file"]).as_posix()
        assert name.endswith((".ortpkg", "digests.json")) or each["nbytes"] == len(after[name])


def test_a_dry_run_is_told_in_words(ortpkg: RunCommand, folder: Path) -> None:
    done = ortpkg("add-variant", "p", "third.onnx", "--ep", "qnn", "--dry-run")
    assert "would add models/model/third/third.onnx (" in done.out
    assert "would change models/model/metadata.json" in done.out
    assert f"in {folder / 'p'}; nothing was changed" in done.err


def test_a_dry_run_refuses_what_the_command_refuses(ortpkg: RunCommand, folder: Path) -> None:
    done = ortpkg("add-variant", "p", "double.onnx", "--dry-run")
    assert done.code == 4
    assert "there is a variant 'double' already" in done.err
    assert "verify changes nothing" in ortpkg("verify", "p", "--dry-run").err


def test_a_dry_run_cannot_look_past_a_command_that_was_stopped(
    ortpkg: RunCommand, folder: Path
) -> None:
    (folder / "p" / f"{STAGING_PREFIX}0123456789abcdef").mkdir()
    done = ortpkg("remove-variant", "p", "second", "--dry-run")
    assert done.code == 4
    assert "what comes then cannot be foretold" in done.err


def test_every_command_that_changes_files_has_a_dry_run(help_of: HelpOf) -> None:
    lacking = {name for name in COMMANDS if "--dry-run" not in help_of(name).out}
    reads = {
        "settings",
        "diff",
        "inspect",
        "validate",
        "explain",
        "migrate-check",
        "select",
        "run",
        "plan",
        "serve",
        "devices",
        "doctor",
        "list",
        "show",
        "history",
        "outdated",
    }
    store = {"rollback", "uninstall", "repair"}  # which take a name, and say what they did
    records = {"bench"}  # adds to what is recorded of this machine; --no-record does not
    outputs = {"batch", "report"}  # into a folder or a file that has to be new
    credentials = {"login", "logout"}  # a password cannot be tried without sending it
    listed = reads | store | records | outputs | credentials
    assert lacking - listed == set(), "give them --dry-run, or enter them above if they only read"
    assert listed - lacking == set(), "they have --dry-run, or are gone: take them out above"


def test_an_output_is_replaced_only_where_asked_for(ortpkg: RunCommand, folder: Path) -> None:
    assert ortpkg("pack", "p", "-o", "q.ortpkg").code == 0
    for words in (
        "create p --cpu third.onnx",
        "pack other -o packed.ortpkg",
        "unpack q.ortpkg -o p",
    ):
        before = content_of(folder)
        done = ortpkg(*words.split())
        assert done.code == 4
        assert "exists already" in done.err
        assert content_of(folder) == before
        assert ortpkg(*words.split(), "--overwrite").code == 0
        assert content_of(folder) != before
    assert ortpkg("verify", "p").code == ortpkg("verify", "other").code == 0
    assert not [name for name in content_of(folder) if STAGING_PREFIX in name]


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ("create folder --cpu double.onnx", "folder/mine.txt"),
        ("create double.onnx --cpu third.onnx", "double.onnx"),
        ("unpack packed.ortpkg -o link", "other/manifest.json"),
        ("pack p -o folder", "folder/mine.txt"),
        ("pack p -o third.onnx", "third.onnx"),
    ],
)
def test_only_a_package_or_a_packed_one_is_overwritten(
    ortpkg: RunCommand, folder: Path, words: str, kept: str
) -> None:
    (folder / "folder").mkdir()
    (folder / "folder/mine.txt").write_text("mine")
    (folder / "link").symlink_to(folder / "other")
    before = content_of(folder)
    done = ortpkg(*words.split(), "--overwrite")
    assert done.code == 4
    assert "it is not overwritten" in done.err
    assert content_of(folder)[kept] == before[kept]


def test_functions_can_be_rehearsed(folder: Path) -> None:
    from ortpkg.authoring.new_variant import NewVariant

    models = [NewVariant.for_cpu(folder / "double.onnx")]
    files = rehearse(lambda operations: create(folder / "new", models, operations=operations))
    assert files is not None
    assert "models/model/double/double.onnx" in files.adds
    assert not (folder / "new").exists()


def test_a_system_that_cannot_exchange_names_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ortpkg.authoring.new_variant import NewVariant

    monkeypatch.setattr(
        "ortpkg.foundations.storage.file_operations.exchange_names", lambda _first, _second: False
    )
    before = content_of(folder)
    with pytest.raises(
        AuthoringError, match="cannot be exchanged in one step on this system: remove it first"
    ):
        create(
            folder / "p",
            [NewVariant.for_cpu(folder / "third.onnx")],
            overwrite=True,
            operations=FileOperations(),
        )
    assert content_of(folder) == before
