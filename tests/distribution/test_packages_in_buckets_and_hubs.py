"""Packed packages in buckets and on hubs: by their libraries, which leave and send nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import obstore
import pytest
from huggingface_hub import constants
from obstore.store import MemoryStore

import ortpkg
from ortpkg.distribution.installation import install
from ortpkg.distribution.registry.bucket_file import BucketFile
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.distribution.variant_choice import InstallWishes
from ortpkg.foundations.errors import (
    ArtifactNotFoundError,
    OrtpkgError,
    RegistryAuthenticationError,
    RegistryError,
    RegistryUnreachableError,
)
from tests.distribution.conftest import PACKED_PATH
from tests.distribution.test_installation import models_in
from tests.registry.file_server import FileServer, serving

CPU = InstallWishes(profiles=("plain-server",))
S3 = "s3://models/digits.ortpkg"  # with an endpoint: the path that the server has
HUB = "hf://ann/digits@v1/packed/digits.ortpkg"
BRANCH, COMMIT = (f"/ann/digits/resolve/{each}/packed/digits.ortpkg" for each in ("v1", "c0ffee"))


@pytest.fixture
def bucket(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> FileServer:
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ann")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "correct horse")
    return server


@pytest.fixture
def hub(server: FileServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FileServer:
    template = "/{repo_id}/resolve/{revision}/{filename}"  # as HF_ENDPOINT makes it
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", server.url + template)
    monkeypatch.setattr(constants, "ENDPOINT", server.url)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    server.files[BRANCH] = server.files[COMMIT] = server.files[PACKED_PATH]
    server.headers["X-Repo-Commit"] = "c0ffee"
    return server


def test_of_a_file_in_a_bucket_comes_what_is_wanted(
    bucket: FileServer, store: PackageStore
) -> None:
    report = install(S3, wishes=CPU)

    root = store.open("digits").root
    assert models_in(root) == {report.plan.choices[0].variant}
    assert ortpkg.verify(root).is_intact
    assert bucket.sent_nbytes < len(bucket.files[PACKED_PATH]) * 0.6
    assert {each.headers["user-agent"].partition("/")[0] for each in bucket.asked} == {"ortpkg"}


def test_a_file_in_a_bucket_that_is_replaced_meanwhile_is_noticed(
    bucket: FileServer, store: PackageStore
) -> None:
    def replace(_: object) -> None:
        bucket.tag = '"2"'

    with pytest.raises(RegistryError, match="another file by now"):
        install(S3, wishes=CPU, on_plan=replace)
    assert store.packages() == ()


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (404, ArtifactNotFoundError),
        (403, RegistryAuthenticationError),
        (401, RegistryAuthenticationError),
        (400, RegistryUnreachableError),
    ],
)
def test_what_a_bucket_refuses_is_a_typed_error(
    bucket: FileServer, store: PackageStore, status: int, error: type[OrtpkgError]
) -> None:
    bucket.statuses[PACKED_PATH] = status

    with pytest.raises(error, match=r"s3://models/digits\.ortpkg: ") as raised:
        install(S3, store=store)
    assert "\n" not in str(raised.value)


def test_without_credentials_a_bucket_is_asked_as_by_anybody(
    bucket: FileServer, store: PackageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    install(S3, wishes=CPU)

    assert {each.headers.get("authorization") for each in bucket.asked} == {None}


def test_a_bucket_is_not_asked_over_plain_http(
    store: PackageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://files.invalid")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ann")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "correct horse")

    with pytest.raises(RegistryUnreachableError, match="builder error"):
        install(S3, store=store)


def test_a_large_object_comes_in_pieces() -> None:
    content = os.urandom(9 << 20)
    memory = MemoryStore()
    obstore.put(memory, "d.ortpkg", content)
    file = BucketFile(memory, "d.ortpkg", where="memory")

    with file.read(5) as chunks:
        pieces = list(chunks)
    assert b"".join(pieces) == content[5:]
    assert max(map(len, pieces)) == 8 << 20


def test_of_a_file_on_a_hub_comes_what_is_wanted_of_one_commit(
    hub: FileServer, store: PackageStore
) -> None:
    install(HUB, wishes=CPU)

    assert hub.paths("HEAD") == [BRANCH]
    assert set(hub.paths()) == {COMMIT}
    assert hub.sent_nbytes < len(hub.files[PACKED_PATH]) * 0.6
    assert ortpkg.verify(store.open("digits").root).is_intact
    assert store.find("digits").reference == HUB


def test_a_token_goes_to_the_hub_and_not_to_where_it_keeps_its_files(
    hub: FileServer, store: PackageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with serving(FileServer(files=dict(hub.files))) as files:
        hub.redirects[COMMIT] = files.url + PACKED_PATH
        install(HUB, wishes=CPU)

    assert {each.headers.get("authorization") for each in hub.asked} == {"Bearer hf_secret"}
    assert {each.headers.get("authorization") for each in files.asked} == {None}
    assert not [path for path in store.root.rglob("*.json") if "hf_secret" in path.read_text()]


@pytest.mark.parametrize(
    ("code", "error", "message"),
    [
        ("EntryNotFound", ArtifactNotFoundError, "no such file"),
        ("RevisionNotFound", ArtifactNotFoundError, "no such revision"),
        ("GatedRepo", RegistryAuthenticationError, "ask for it on the hub"),
        ("RepoNotFound", RegistryAuthenticationError, "no such repository"),
        ("", RegistryUnreachableError, "status 404"),
    ],
)
def test_what_a_hub_refuses_is_a_typed_error(
    hub: FileServer, store: PackageStore, code: str, error: type[OrtpkgError], message: str
) -> None:
    hub.statuses[BRANCH] = 403 if code == "GatedRepo" else 404
    hub.headers["X-Error-Code"] = code

    with pytest.raises(error, match=message):
        install(HUB, store=store)


def test_what_names_no_commit_is_no_hub(hub: FileServer, store: PackageStore) -> None:
    hub.headers.clear()

    with pytest.raises(RegistryError, match="it is no hub"):
        install(HUB, store=store)


READS = """
import sys
from ortpkg.package.references.package_references import parse_reference
from ortpkg.distribution.registry.remote_opening import open_remote_file

for place in sys.argv[1:]:
    with open_remote_file(parse_reference(place)).read(0, 2) as chunks:
        assert b"".join(chunks) == b"PK"
"""


def test_the_libraries_leave_nothing_and_ask_nobody_else(hub: FileServer, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with serving(FileServer()) as elsewhere:
        environment = {key: text for key, text in os.environ.items() if "proxy" not in key.lower()}
        environment |= {
            "HOME": str(home),
            "HF_ENDPOINT": hub.url,
            "AWS_ENDPOINT_URL": hub.url,
            "AWS_ACCESS_KEY_ID": "ann",
            "AWS_SECRET_ACCESS_KEY": "correct horse",
            "HTTP_PROXY": elsewhere.url,
            "HTTPS_PROXY": elsewhere.url,
            "NO_PROXY": "127.0.0.1",
        }
        command = [sys.executable, "-c", READS, HUB, S3]
        subprocess.run(command, env=environment, check=True, timeout=60)

    assert elsewhere.asked == []
    assert {each.path for each in hub.asked} == {BRANCH, COMMIT, PACKED_PATH}
    assert list(home.iterdir()) == []
