"""Packed packages behind addresses: what is wanted of them comes, in parts, and nothing else."""

from __future__ import annotations

import io
import struct
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import ortpkg
from ortpkg.authoring.edit import PackageEdits, edit
from ortpkg.distribution.installation import install
from ortpkg.distribution.pulling import pull
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.distribution.upgrading import find_outdated, upgrade
from ortpkg.distribution.variant_choice import InstallWishes
from ortpkg.foundations.errors import (
    ArtifactFormatError,
    ArtifactNotFoundError,
    LayerMismatchError,
    RegistryAuthenticationError,
    RegistryError,
    UsageError,
)
from tests.distribution.conftest import PACKED_PATH as PATH
from tests.distribution.conftest import SAMPLES
from tests.distribution.test_installation import models_in
from tests.registry.file_server import FileServer

CPU = InstallWishes(profiles=("plain-server",))


def test_of_a_packed_file_come_its_documents_and_the_chosen_variant(
    server: FileServer, store: PackageStore
) -> None:
    report = install(server.url + PATH, wishes=CPU)

    root = store.open("digits").root
    assert models_in(root) == {report.plan.choices[0].variant}
    assert server.sent_nbytes < len(server.files[PATH]) * 0.6
    assert ortpkg.verify(root).is_intact
    digests = (SAMPLES / "digits.ortpackage" / "digests.json").read_bytes()
    assert (root / "digests.json").read_bytes() == digests
    assert store.find("digits").reference == server.url + PATH


def test_a_second_time_only_documents_are_asked_for(
    server: FileServer, store: PackageStore
) -> None:
    first = install(server.url + PATH, wishes=CPU)
    server.sent_nbytes = 0
    second = install(server.url + PATH, wishes=CPU)

    assert second.generation == first.generation
    assert server.sent_nbytes < 48 * 1024
    assert store.history("digits") == (first.generation,)


@pytest.mark.parametrize("has_lengths", [True, False])
def test_a_server_that_sends_no_parts_sends_the_whole_file_once(
    server: FileServer, store: PackageStore, *, has_lengths: bool
) -> None:
    parts = install(server.url + PATH, name="parts", wishes=CPU)
    server.has_ranges, server.has_lengths, server.sent_nbytes = False, has_lengths, 0
    whole = install(server.url + PATH, name="whole", wishes=InstallWishes(all_variants=True))

    assert whole.plan.fetched.source.digest == parts.plan.fetched.source.digest
    assert len(models_in(store.open("whole").root)) == 5
    assert server.sent_nbytes <= 2 * len(server.files[PATH])  # once to see what the server can
    assert list((store.root / "staging").iterdir()) == []


@pytest.mark.parametrize("has_ranges", [True, False])
def test_what_breaks_off_is_gone_on_with(
    server: FileServer, store: PackageStore, *, has_ranges: bool
) -> None:
    server.has_ranges = has_ranges
    server.break_after = [1, 100, 5_000, 0, 60_000, 100_000]
    install(server.url + PATH, wishes=CPU)

    assert server.break_after == []
    assert ortpkg.verify(store.open("digits").root).is_intact


def test_where_the_chosen_file_is_not_what_is_recorded_nothing_is_installed(
    server: FileServer, store: PackageStore
) -> None:
    content = bytearray(server.files[PATH])
    with zipfile.ZipFile(io.BytesIO(bytes(content))) as archive:
        models = [each for each in archive.infolist() if each.filename.endswith("model.onnx")]
    for each in models:
        extra = struct.unpack_from("<H", content, each.header_offset + 28)[0]
        content[each.header_offset + 30 + len(each.filename) + extra] ^= 1
    server.files[PATH] = bytes(content)

    with pytest.raises(LayerMismatchError, match="have another digest"):
        install(server.url + PATH, wishes=CPU)
    assert store.packages() == ()


def test_a_file_that_is_replaced_meanwhile_is_noticed(
    server: FileServer, store: PackageStore
) -> None:
    def replace(_: object) -> None:
        server.tag = '"2"'

    with pytest.raises(RegistryError, match="another file by now"):
        install(server.url + PATH, wishes=CPU, on_plan=replace)
    assert store.packages() == ()


def test_upgrade_takes_what_lies_there_now(
    server: FileServer, store: PackageStore, tmp_path: Path
) -> None:
    install(server.url + PATH, wishes=CPU)
    pull("digits", tmp_path / "new", wishes=InstallWishes(all_variants=True, samples=False))
    edit(tmp_path / "new", PackageEdits(version="3.0"))
    ortpkg.pack(tmp_path / "new", tmp_path / "new.ortpkg")
    server.files[PATH], server.tag = (tmp_path / "new.ortpkg").read_bytes(), '"2"'

    outdated = find_outdated(store.find("digits"), store)
    assert outdated is not None
    assert not outdated.is_current

    found = upgrade(store.find("digits"), store=store)

    assert found.is_newer
    assert store.find("digits").tag == "3.0"


def without_digests(content: bytes) -> bytes:
    target = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as source,
        zipfile.ZipFile(target, "w") as archive,
    ):
        for each in source.infolist():
            if each.filename != "digests.json":
                archive.writestr(each.filename, source.read(each))
    return target.getvalue()


def deflated_with(path: str, text: bytes) -> Callable[[bytes], bytes]:
    """The archive, compressed, with another file at ``path``."""

    def change(content: bytes) -> bytes:
        target = io.BytesIO()
        with (
            zipfile.ZipFile(io.BytesIO(content)) as source,
            zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            for each in source.infolist():
                new = zipfile.ZipInfo(each.filename)
                new.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(new, text if each.filename == path else source.read(each))
            if path not in source.namelist():
                archive.writestr(path, text)
        return target.getvalue()

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: b"", "it is empty"),
        (lambda content: b"PK", "too short to be an archive"),
        (lambda content: content[:-30], "does not end with the end of an archive"),
        (lambda content: b"<html>" * 10_000, "does not end with the end of an archive"),
        (without_digests, "it has no digests.json"),
        (deflated_with("more.txt", b"x"), "does not record 'more.txt'"),
        (deflated_with("README.md", b"x"), "'README.md' has 1 bytes, and digests.json records"),
        (deflated_with("samples/samples.json", b"x" * 9), "'samples/samples.json' has 9 bytes"),
        (deflated_with("../up", b"x"), "entry '../up'"),
        (deflated_with("a.json", b" " * (2 << 20)), "more than 100 times"),
    ],
)
def test_what_is_no_packed_package_is_one_error(
    server: FileServer, store: PackageStore, change: Callable[[bytes], bytes], message: str
) -> None:
    server.files[PATH] = change(server.files[PATH])

    with pytest.raises(ArtifactFormatError, match=message):
        install(server.url + PATH, wishes=CPU)
    assert store.packages() == ()


def test_a_compressed_archive_is_read_too(server: FileServer, store: PackageStore) -> None:
    readme = (SAMPLES / "digits.ortpackage" / "README.md").read_bytes()
    server.files[PATH] = deflated_with("README.md", readme)(server.files[PATH])
    install(server.url + PATH, wishes=CPU)

    assert ortpkg.verify(store.open("digits").root).is_intact


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (404, ArtifactNotFoundError),
        (403, RegistryAuthenticationError),
        (500, RegistryError),
        (418, RegistryError),
    ],
)
def test_what_a_server_refuses_is_a_typed_error_without_the_query(
    server: FileServer, store: PackageStore, status: int, error: type[RegistryError]
) -> None:
    server.statuses[f"{PATH}?key=secret"] = status
    with pytest.raises(error, match=r"digits\.ortpkg: ") as raised:
        install(f"{server.url}{PATH}?key=secret", store=store)

    assert "secret" not in str(raised.value)


def test_a_query_goes_to_the_server_and_is_not_recorded(
    server: FileServer, store: PackageStore
) -> None:
    server.files[f"{PATH}?key=secret"] = server.files.pop(PATH)
    install(f"{server.url}{PATH}?key=secret", wishes=CPU)

    assert store.find("digits").reference == server.url + PATH
    assert not [path for path in store.root.rglob("*.json") if "secret" in path.read_text()]


def test_to_another_host_without_encryption_no_redirect_is_followed(
    server: FileServer, store: PackageStore
) -> None:
    server.redirects[PATH] = "http://files.invalid/digits.ortpkg"

    with pytest.raises(RegistryError, match="another host without encryption"):
        install(server.url + PATH, store=store)


def test_a_package_at_an_address_is_used_at_once(server: FileServer, store: PackageStore) -> None:
    package = ortpkg.ModelPackage(server.url + PATH)

    assert package.info.name == "digits"
    assert store.find("digits").reference == server.url + PATH


@pytest.mark.parametrize(
    ("reference", "library"),
    [("s3://bucket/d.ortpkg", "obstore"), ("hf://ann/digits/d.ortpkg", "huggingface_hub")],
)
def test_without_its_library_a_place_says_what_to_install(
    store: PackageStore, monkeypatch: pytest.MonkeyPatch, reference: str, library: str
) -> None:
    for name in [each for each in sys.modules if each.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)

    with pytest.raises(
        UsageError, match=f"needs {library}, which .*: pip install {library}, .* its extra "
    ):
        install(reference, store=store)
