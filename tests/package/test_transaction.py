"""The commit protocol (ADR 2), driven to failure at every file operation."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ortpkg.foundations.errors import AuthoringError, DigestMismatchError, PackageFormatError
from ortpkg.foundations.storage.composed_file import ComposedFile, FileRange, Zeros
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.foundations.storage.hashing import hash_file
from ortpkg.package.changes import transaction
from ortpkg.package.changes.recovery import recover
from ortpkg.package.changes.transaction import (
    DocumentChange,
    PackageChange,
    commit_change,
    create_package,
)
from ortpkg.package.integrity.digest_check import check_digests, compute_digests, list_files
from ortpkg.package.integrity.digests import (
    PackageDigests,
    RecordedFile,
    dump_digests,
    read_digests,
)
from tests.package.failing_operations import FailingOperations, Killed, content_of


def metadata(*variants: str) -> bytes:
    """metadata.json of component ``m``."""
    files = {"old": "model.onnx", "new": "a.onnx"}
    body = {variant: {"model_file": files[variant]} for variant in variants}
    return json.dumps({"component_model_name": "m", "model_variants": body}).encode()


def manifest(*components: str, version: str = "1") -> bytes:
    return json.dumps(
        {"model_name": "p", "model_version": version, "component_models": components}
    ).encode()


def make_package(root: Path) -> Path:
    (root / "models/m/old/data").mkdir(parents=True)
    (root / "models/m/old/model.onnx").write_bytes(b"old model")
    (root / "models/m/old/data/weights.bin").write_bytes(b"old weights")
    (root / "models/m/metadata.json").write_bytes(metadata("old"))
    (root / "manifest.json").write_bytes(manifest("m"))
    (root / "digests.json").write_bytes(dump_digests(compute_digests(root)))
    return root


def make_sources(directory: Path) -> dict[str, Path]:
    directory.mkdir()
    (directory / "a.onnx").write_bytes(b"new model")
    (directory / "w.bin").write_bytes(b"new weights")
    return {"a.onnx": directory / "a.onnx", "sub/w.bin": directory / "w.bin"}


def exchange_variant(root: Path, sources: dict[str, Path]) -> PackageChange:
    """Adds variant ``new`` and removes ``old``."""
    document = DocumentChange(
        path="models/m/metadata.json",
        before=(root / "models/m/metadata.json").read_bytes(),
        after=metadata("new"),
    )
    return PackageChange(
        documents=(document,), new_directories={"models/m/new": sources}, removes=("models/m/old",)
    )


def add_component(root: Path, sources: dict[str, Path]) -> PackageChange:
    """Adds a component: its metadata.json is new, and the manifest is the commit point."""
    documents = (
        DocumentChange(
            path="models/n/metadata.json", after=metadata("new").replace(b'"m"', b'"n"')
        ),
        DocumentChange(
            path="manifest.json",
            before=(root / "manifest.json").read_bytes(),
            after=manifest("m", "n"),
        ),
    )
    return PackageChange(documents=documents, new_directories={"models/n/new": sources})


def add_files(root: Path, sources: dict[str, Path]) -> PackageChange:
    """Adds files beside those of variant ``old``, and takes one away."""
    document = DocumentChange(
        path="models/m/metadata.json",
        before=(root / "models/m/metadata.json").read_bytes(),
        after=metadata("old") + b"\n",
    )
    content = ComposedFile((b"new ", FileRange(sources["sub/w.bin"], 4, 7), Zeros(3)))
    return PackageChange(
        documents=(document,),
        new_directories={},
        new_files={
            "models/m/old/new.bin": content,
            "models/m/old/more/copy": ComposedFile.copy_of(sources["a.onnx"]),
        },
        removes=("models/m/old/data/weights.bin",),
    )


def change_several_documents(root: Path, sources: dict[str, Path]) -> PackageChange:
    """Adds variant ``new`` to two documents: the first to be replaced decides."""
    documents = (
        DocumentChange(
            path="models/m/metadata.json",
            before=(root / "models/m/metadata.json").read_bytes(),
            after=metadata("old", "new"),
        ),
        DocumentChange(
            path="manifest.json",
            before=(root / "manifest.json").read_bytes(),
            after=manifest("m", version="2"),
        ),
    )
    return PackageChange(documents=documents, new_directories={"models/m/new": sources})


CHANGES: dict[str, Callable[[Path, dict[str, Path]], PackageChange]] = {
    "exchange_variant": exchange_variant,
    "add_component": add_component,
    "add_files": add_files,
    "change_several_documents": change_several_documents,
}


@pytest.fixture(params=CHANGES)
def make_change(request: pytest.FixtureRequest) -> Callable[[Path, dict[str, Path]], PackageChange]:
    return CHANGES[request.param]


def test_files_join_a_directory_that_is_there(tmp_path: Path) -> None:
    root, sources = make_package(tmp_path / "p"), make_sources(tmp_path / "s")

    commit_change(root, add_files(root, sources))

    assert (root / "models/m/old/new.bin").read_bytes() == b"new weights\0\0\0"
    assert (root / "models/m/old/more/copy").read_bytes() == b"new model"
    assert not (root / "models/m/old/data").exists()
    assert (root / "digests.json").read_bytes() == dump_digests(compute_digests(root))


def test_a_new_file_replaces_nothing(tmp_path: Path) -> None:
    root, sources = make_package(tmp_path / "p"), make_sources(tmp_path / "s")
    (root / "models/m/old/new.bin").write_bytes(b"somebody's work")
    before = content_of(root)

    with pytest.raises(AuthoringError, match=r"'models/m/old/new.bin' is in the package already"):
        commit_change(root, add_files(root, sources))

    assert content_of(root) == before


def test_a_source_that_becomes_too_short_changes_nothing(tmp_path: Path) -> None:
    root, sources = make_package(tmp_path / "p"), make_sources(tmp_path / "s")
    change, before = add_files(root, sources), content_of(root)
    sources["sub/w.bin"].write_bytes(b"new")

    with pytest.raises(AuthoringError, match=r"'.*w.bin' became shorter while it was being read"):
        commit_change(root, change)

    assert content_of(root) == before


def test_commits_files_and_documents_and_digests_of_both(tmp_path: Path) -> None:
    root, sources = make_package(tmp_path / "p"), make_sources(tmp_path / "s")

    commit_change(root, exchange_variant(root, sources))

    assert list_files(root) == (
        "manifest.json", "models/m/metadata.json", "models/m/new/a.onnx", "models/m/new/sub/w.bin",
    )  # fmt: skip
    assert (root / "models/m/new/sub/w.bin").read_bytes() == b"new weights"
    assert (root / "digests.json").read_bytes() == dump_digests(compute_digests(root))


def test_after_a_kill_at_any_operation_the_next_command_finds_the_old_or_the_new_package(
    tmp_path: Path, make_change: Callable[[Path, dict[str, Path]], PackageChange]
) -> None:
    sources = make_sources(tmp_path / "s")
    whole = make_package(tmp_path / "whole")
    old = content_of(whole)
    counting = FailingOperations()
    commit_change(whole, make_change(whole, sources), operations=counting)
    new = content_of(whole)

    outcomes = []
    for index in range(len(counting.log)):
        root = make_package(tmp_path / f"p{index}")
        change = make_change(root, sources)
        with pytest.raises(Killed):
            commit_change(root, change, operations=FailingOperations(index, kill=True))
        assert check_digests(root) == ()
        seen = content_of(root)
        outcome = (
            "new" if seen[change.commit_document.path] == change.commit_document.after else "old"
        )
        expected = new if outcome == "new" else old
        follows = {
            document.path: seen[document.path]
            for document in change.documents
            if document.path in old
        }
        assert {**expected, **follows, "digests.json": seen["digests.json"]}.items() <= seen.items()

        recover(root)
        assert content_of(root) == expected
        outcomes.append(outcome)

    assert outcomes == sorted(outcomes, reverse=True), "the commit point is passed once"
    assert {"old", "new"} == set(outcomes)


def test_a_kill_while_recovering_leaves_a_package_that_the_next_command_recovers(
    tmp_path: Path,
) -> None:
    sources = make_sources(tmp_path / "s")
    old = content_of(make_package(tmp_path / "whole"))
    index, finished = 0, False
    while not finished:
        root = make_package(tmp_path / f"p{index}")
        with pytest.raises(Killed):
            commit_change(
                root,
                add_component(root, sources),
                operations=FailingOperations(at=("replace", "manifest.json"), kill=True),
            )
        try:
            recover(root, operations=FailingOperations(index, kill=True))
            finished = True
        except Killed:
            assert check_digests(root) == ()
        recover(root)
        assert content_of(root) == old
        index += 1
    assert index > 5


def test_a_full_disk_at_any_operation_changes_nothing_or_everything(
    tmp_path: Path, make_change: Callable[[Path, dict[str, Path]], PackageChange]
) -> None:
    sources = make_sources(tmp_path / "s")
    whole = make_package(tmp_path / "whole")
    old = content_of(whole)
    counting = FailingOperations()
    commit_change(whole, make_change(whole, sources), operations=counting)
    new = content_of(whole)

    for index in range(len(counting.log)):
        root = make_package(tmp_path / f"p{index}")
        refusals = []
        try:
            commit_change(root, make_change(root, sources), operations=FailingOperations(index))
        except AuthoringError as error:
            refusals.append(str(error))
        assert content_of(root) == (old if refusals else new)
        assert all(
            "nothing was changed: No space left on device" in refusal for refusal in refusals
        )


def test_everything_is_durable_before_it_is_renamed_into_place(tmp_path: Path) -> None:
    root, sources = make_package(tmp_path / "p"), make_sources(tmp_path / "s")
    operations = FailingOperations()

    commit_change(root, exchange_variant(root, sources), operations=operations)

    names = [name for name, _ in operations.log]
    first_publication = next(
        i
        for i, (name, path) in enumerate(operations.log)
        if name == "replace" and path == root / "digests.json"
    )
    created = [path for name, path in operations.log[:first_publication] if name == "create"]
    synced = {path for name, path in operations.log[:first_publication] if name == "fsync"}
    assert created
    assert set(created) <= synced
    commit = next(i for i, (_, path) in enumerate(operations.log) if path.name == "metadata.json")
    assert names[commit : commit + 2] == ["replace", "fsync_directory"]


def test_an_interrupt_cleans_up(tmp_path: Path) -> None:
    root, sources = make_package(tmp_path / "p"), make_sources(tmp_path / "s")
    old = content_of(root)

    def interrupt(file: str, done_nbytes: int, total_nbytes: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        commit_change(root, exchange_variant(root, sources), progress=interrupt)

    assert content_of(root) == old
    assert sorted(path.name for path in root.iterdir()) == [
        "digests.json",
        "manifest.json",
        "models",
    ]


def test_refuses_when_the_disk_has_too_little_space(tmp_path: Path) -> None:
    class SmallDisk(FileOperations):
        def free_nbytes(self, directory: Path) -> int:
            return 1000

    root, sources = make_package(tmp_path / "p"), make_sources(tmp_path / "s")

    with pytest.raises(
        AuthoringError,
        match=(
            r"not enough space .*: 20 bytes needed, and 65536 to spare, 1000 free; nothing was"
            r" changed"
        ),
    ):
        commit_change(root, exchange_variant(root, sources), operations=SmallDisk())


def test_refuses_a_document_that_was_changed_since_it_was_read(tmp_path: Path) -> None:
    root, sources = make_package(tmp_path / "p"), make_sources(tmp_path / "s")
    change = exchange_variant(root, sources)
    (root / "models/m/metadata.json").write_bytes(b'{"variants": ["old", "edited"]}')

    with pytest.raises(
        AuthoringError, match=r"'models/m/metadata.json' was changed by somebody else meanwhile"
    ):
        commit_change(root, change)


def test_refuses_a_document_that_changes_while_files_are_copied(tmp_path: Path) -> None:
    root, sources = make_package(tmp_path / "p"), make_sources(tmp_path / "s")
    edited = b'{"variants": ["old", "edited"]}'

    def edit(file: str, done_nbytes: int, total_nbytes: int) -> None:
        (root / "models/m/metadata.json").write_bytes(edited)

    with pytest.raises(
        AuthoringError, match=r"was changed by somebody else meanwhile; run the command again"
    ):
        commit_change(root, exchange_variant(root, sources), progress=edit)

    assert content_of(root)["models/m/metadata.json"] == edited
    assert sorted(path.name for path in (root / "models/m").iterdir()) == ["metadata.json", "old"]


def test_refuses_a_directory_that_the_package_does_not_know(tmp_path: Path) -> None:
    root, sources = make_package(tmp_path / "p"), make_sources(tmp_path / "s")
    (root / "models/m/new").mkdir()
    (root / "models/m/new/notes.txt").write_text("mine")

    with pytest.raises(
        AuthoringError,
        match=r"'models/m/new' is in the package already, though no document names it",
    ):
        commit_change(root, exchange_variant(root, sources))

    assert (root / "models/m/new/notes.txt").read_text() == "mine"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes")
@pytest.mark.parametrize("kind", ["symlink", "pipe"])
def test_refuses_to_copy_what_is_no_regular_file(tmp_path: Path, kind: str) -> None:
    root, sources = make_package(tmp_path / "p"), make_sources(tmp_path / "s")
    old = content_of(root)
    odd = tmp_path / "odd.bin"
    if kind == "symlink":
        odd.symlink_to(sources["a.onnx"])
    else:
        os.mkfifo(odd)

    with pytest.raises(AuthoringError, match=r"is a symbolic link|is not a regular file"):
        commit_change(root, exchange_variant(root, {"odd.bin": odd}))

    assert content_of(root) == old


def test_a_live_file_keeps_its_inode_for_those_who_have_it_open(tmp_path: Path) -> None:
    root, sources = make_package(tmp_path / "p"), make_sources(tmp_path / "s")
    with (root / "models/m/metadata.json").open("rb") as reader:
        commit_change(root, exchange_variant(root, sources))

        assert reader.read() == metadata("old")


def call_garbage(root: Path, *places: str, key: str = "adds") -> None:
    """digests.json says that a change, which happened or did not, left ``places``."""
    document = json.loads((root / "digests.json").read_bytes())
    digest = document["files"]["manifest.json"]["digests"][0] if key == "removes" else "0" * 64
    pending: dict[str, object] = {
        "commit_document": "manifest.json",
        "committed_digest": digest,
        "adds": [],
        "removes": [],
    }
    document["pending"] = pending | {key: list(places)}
    (root / "digests.json").write_text(json.dumps(document))


@pytest.mark.parametrize("key", ["adds", "removes"])
@pytest.mark.parametrize(
    ("garbage", "reason"),
    [
        ("models", "is in use by component model 'm'"),
        ("models/m", "is in use by component model 'm'"),
        ("models/m/old", "is in use by variant 'old'"),
        ("models/m/old/model.onnx", "is in use by variant 'old'"),
        ("models/m/metadata.json", "is in use by component model 'm'"),
        ("models/m/old/data", "is in use by the model 'model.onnx'"),
        ("models/m/old/data/weights.bin", "is in use by the model 'model.onnx'"),
        ("manifest.json", "is in use by every package"),
        ("digests.json", "is in use by every package"),
        ("link/victim", "is reached through a symbolic link"),
    ],
)
def test_recovery_deletes_nothing_that_is_in_use_whatever_a_hostile_digests_file_says(
    tmp_path: Path, garbage: str, reason: str, key: str
) -> None:
    root = make_package(tmp_path / "p")
    location = b"data/weights.bin"
    (root / "models/m/old/model.onnx").write_bytes(
        b"\x0a\x08location\x12" + bytes([len(location)]) + location
    )
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/victim").write_text("precious")
    (root / "digests.json").write_bytes(dump_digests(compute_digests(root)))
    (root / "link").symlink_to(tmp_path / "outside")
    call_garbage(root, garbage, key=key)
    before = content_of(root)

    with pytest.raises(PackageFormatError, match=f"calls '{garbage}.*' garbage .*: it {reason}"):
        recover(root)

    assert content_of(root) == before
    assert (tmp_path / "outside/victim").exists()


def test_recovery_leaves_what_was_changed_or_added_since(tmp_path: Path) -> None:
    root, sources = make_package(tmp_path / "p"), make_sources(tmp_path / "s")
    with pytest.raises(Killed):
        commit_change(
            root,
            exchange_variant(root, sources),
            operations=FailingOperations(at=("replace", "metadata.json"), kill=True),
        )
    (root / "models/m/new/a.onnx").write_bytes(b"somebody's work")
    (root / "models/m/new/notes.txt").write_bytes(b"more of it")

    recover(root)

    left = [path for path in content_of(root) if path.startswith("models/m/new/")]
    assert left == ["models/m/new/a.onnx", "models/m/new/notes.txt"]


@pytest.mark.parametrize(("count", "rest"), [(5, "'note-4.txt'"), (6, "'note-4.txt' and 1 more")])
def test_recovery_names_five_files_that_it_leaves_and_counts_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, count: int, rest: str
) -> None:
    root, sources = make_package(tmp_path / "p"), make_sources(tmp_path / "s")
    with pytest.raises(Killed):
        commit_change(
            root,
            exchange_variant(root, sources),
            operations=FailingOperations(at=("replace", "metadata.json"), kill=True),
        )
    for index in range(count):
        (root / f"models/m/new/note-{index}.txt").write_bytes(b"somebody's work")

    recover(root)

    (told,) = [each.getMessage() for each in caplog.records if "not deleted" in each.getMessage()]
    assert told.replace("models/m/new/", "").endswith(f"'note-3.txt', {rest}")


def test_recovery_deletes_nothing_of_a_package_that_cannot_be_read(tmp_path: Path) -> None:
    root = make_package(tmp_path / "p")
    call_garbage(root, "models/m/old", key="removes")
    (root / "models/m/metadata.json").write_text("{")

    with pytest.raises(
        PackageFormatError,
        match="nobody knows what of it is in use, since the package cannot be read",
    ):
        recover(root)

    assert (root / "models/m/old/model.onnx").exists()


@pytest.mark.parametrize(
    ("pending", "message"),
    [
        ({"adds": ["../outside"]}, "'../outside' is not a plain relative path"),
        ({"removes": ["/etc/passwd"]}, "'/etc/passwd' is not a plain relative path"),
        ({"adds": ["C:/windows"]}, "'C:/windows' is not a plain relative path"),
        ({"adds": ["models/./m"]}, "'models/./m' is not a plain relative path"),
        ({"adds": "models"}, "pending is not an object with commit_document, adds and removes"),
        (
            {"adds": {"models": 1}},
            "pending is not an object with commit_document, adds and removes",
        ),
        ({"adds": ["x"] * 100_001}, "pending names more than 100000 files"),
        (
            {"documents": {"../manifest.json": "0"}},
            "'../manifest.json' is not a plain relative path",
        ),
        (
            {"documents": {"models/m/old/model.onnx": "0"}},
            "calls a file a document whose name does not end in .json",
        ),
        (
            {"commit_document": "models/m/old/model.onnx"},
            "calls a file a document whose name does not end in .json",
        ),
    ],
)
def test_every_field_of_what_is_pending_is_looked_at(
    tmp_path: Path, pending: dict[str, object], message: str
) -> None:
    root = make_package(tmp_path / "p")
    document = json.loads((root / "digests.json").read_bytes())
    document["pending"] = {
        "commit_document": "a.json",
        "committed_digest": "0",
        "adds": [],
        "removes": [],
    } | pending
    (root / "digests.json").write_text(json.dumps(document))
    before = content_of(root)

    with pytest.raises(PackageFormatError, match=message):
        recover(root)

    assert content_of(root) == before


@pytest.mark.slow
@pytest.mark.timeout(100)
def test_a_long_list_of_what_is_pending_takes_no_time_to_speak_of(tmp_path: Path) -> None:
    root = make_package(tmp_path / "p")
    recorded = read_digests(root)
    assert recorded is not None
    empty = RecordedFile(digests=("0" * 64,), nbytes=0)
    files = {**recorded.files, **{f"a/{index}": empty for index in range(20_000)}}
    (root / "digests.json").write_bytes(dump_digests(PackageDigests(files=files)))
    call_garbage(root, *(f"b/{index}" for index in range(20_000)))

    recover(root)  # every path against every other one would take minutes

    assert len(json.loads((root / "digests.json").read_bytes())["files"]) == 20_004


def test_a_record_that_does_not_add_up_is_not_written_anew(tmp_path: Path) -> None:
    """A right sum would hide that its entries, or what it calls pending, were forged."""
    root = make_package(tmp_path / "p")
    metadata = root / "models/m/metadata.json"
    digest_before = hash_file(metadata).sha256
    metadata.write_bytes(metadata.read_bytes() + b" ")
    forged = hash_file(metadata).sha256
    document = json.loads((root / "digests.json").read_bytes())
    document["files"]["models/m/metadata.json"]["digests"] = [digest_before, forged]
    document["pending"] = {
        "commit_document": "models/m/metadata.json",
        "committed_digest": forged,
        "adds": [],
        "removes": [],
    }
    (root / "digests.json").write_text(json.dumps(document))
    before = content_of(root)

    with pytest.raises(DigestMismatchError, match="its entries do not add up"):
        recover(root)

    assert content_of(root) == before


def test_digests_json_that_is_a_link_out_of_the_package_is_refused(tmp_path: Path) -> None:
    root = make_package(tmp_path / "p")
    (root / "digests.json").rename(tmp_path / "outside.json")
    (root / "digests.json").symlink_to(tmp_path / "outside.json")

    with pytest.raises(PackageFormatError, match="is a link that leads out of the package"):
        recover(root)


def test_a_package_without_digests_gets_them_with_its_first_change(tmp_path: Path) -> None:
    root, sources = make_package(tmp_path / "p"), make_sources(tmp_path / "s")
    (root / "digests.json").unlink()
    recover(root)
    assert not (root / "digests.json").exists()

    commit_change(root, exchange_variant(root, sources))

    assert (root / "digests.json").read_bytes() == dump_digests(compute_digests(root))


def new_package(sources: dict[str, Path]) -> PackageChange:
    return PackageChange(
        documents=(
            DocumentChange(path="models/m/metadata.json", after=b"{}"),
            DocumentChange(path="manifest.json", after=manifest("m")),
        ),
        new_directories={"models/m/v": sources},
    )


@pytest.mark.parametrize("kill", [True, False], ids=["kill", "full-disk"])
def test_a_new_package_is_there_whole_or_not_at_all(tmp_path: Path, kill: bool) -> None:
    sources = make_sources(tmp_path / "s")
    counting = FailingOperations()
    create_package(tmp_path / "whole", new_package(sources), operations=counting)
    new = content_of(tmp_path / "whole")

    for index in range(len(counting.log)):
        root = tmp_path / "p.ortpackage"
        is_last = index == len(counting.log) - 1  # makes the rename durable, after it
        with (
            contextlib.nullcontext()
            if is_last and not kill
            else pytest.raises((Killed, AuthoringError))
        ):
            create_package(
                root, new_package(sources), operations=FailingOperations(index, kill=kill)
            )
        assert root.exists() == is_last
        if is_last:
            FileOperations().remove_tree(root)
        create_package(root, new_package(sources))
        assert content_of(root) == new
        assert sorted(path.name for path in tmp_path.iterdir()) == ["p.ortpackage", "s", "whole"]
        FileOperations().remove_tree(root)


def test_a_new_package_takes_over_an_empty_directory(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()

    create_package(tmp_path / "p", new_package(make_sources(tmp_path / "s")))

    assert check_digests(tmp_path / "p") == ()


def test_a_new_package_does_not_take_over_a_directory_with_files(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p/mine").write_text("")

    with pytest.raises(AuthoringError, match="exists already and is not empty"):
        create_package(tmp_path / "p", new_package(make_sources(tmp_path / "s")))


def test_progress_tells_file_bytes_done_and_bytes_in_total(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ortpkg.foundations.storage.file_operations.CHUNK_NBYTES", 4)
    root, sources = make_package(tmp_path / "p"), make_sources(tmp_path / "s")
    calls: list[tuple[str, int, int]] = []

    commit_change(root, exchange_variant(root, sources), progress=lambda *call: calls.append(call))

    assert calls[:3] == [("a.onnx", 4, 9), ("a.onnx", 8, 9), ("a.onnx", 9, 9)]


def test_nothing_is_deleted_where_the_commit_document_is_neither_the_old_nor_the_new_one(
    tmp_path: Path,
) -> None:
    """Killed after the commit, then edited by hand: the new files are in use."""
    root, sources = make_package(tmp_path / "p"), make_sources(tmp_path / "s")
    with pytest.raises(Killed):
        commit_change(
            root,
            exchange_variant(root, sources),
            operations=FailingOperations(at=("unlink", "model.onnx"), kill=True),
        )
    (root / "models/m/metadata.json").write_bytes(b'{"variants": ["new"], "edited": true}')
    before = content_of(root)

    with pytest.raises(
        AuthoringError, match=r"'models/m/metadata.json', which says .* neither its old nor its new"
    ):
        recover(root)
    assert content_of(root) == before


def test_a_staged_document_that_is_lost_is_said(tmp_path: Path) -> None:
    root = make_package(tmp_path / "p")
    change = change_several_documents(root, make_sources(tmp_path / "s"))
    with pytest.raises(Killed):
        commit_change(
            root, change, operations=FailingOperations(at=("replace", "manifest.json"), kill=True)
        )
    (staged,) = root.glob(".ortpkg-*/document1")
    staged.unlink()

    with pytest.raises(
        AuthoringError,
        match=r"interrupted, and the new 'manifest.json' is lost: repair the package",
    ):
        recover(root)

    assert (root / "models/m/new/a.onnx").is_file()


@pytest.mark.parametrize(
    "error", [OSError(5, "Input/output error"), PackageFormatError("digests.json: cannot be read")]
)
def test_a_change_that_happened_is_no_failure_though_nothing_can_be_read_afterwards(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
) -> None:
    root, sources = make_package(tmp_path / "p"), make_sources(tmp_path / "s")
    change = exchange_variant(root, sources)

    def fail(*_arguments: object, **_options: object) -> None:
        raise error

    monkeypatch.setattr(transaction, "finish", fail)
    monkeypatch.setattr(transaction, "has_sha256", fail)
    commit_change(root, change)

    assert (root / "models/m/metadata.json").read_bytes() == metadata("new")
    assert "was changed, but not tidied up: the next command does it" in caplog.text
    monkeypatch.undo()
    recover(root)
    assert check_digests(root) == ()
    assert not (root / "models/m/old").exists()


def test_a_change_that_nobody_can_look_at_before_it_happens_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, sources = make_package(tmp_path / "p"), make_sources(tmp_path / "s")
    before = content_of(root)

    def fail(*_arguments: object) -> bool:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(transaction, "has_sha256", fail)
    failing = FailingOperations(at=("replace", "metadata.json"), kill=False)
    with pytest.raises(AuthoringError, match="nothing was changed"):
        commit_change(root, exchange_variant(root, sources), operations=failing)
    monkeypatch.undo()
    recover(root)
    assert content_of(root) == before
