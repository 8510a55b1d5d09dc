"""Docker's config file and the programs that it names."""

from __future__ import annotations

import base64
import copy
import json
import os
import pickle
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ortpkg.distribution.registry import credential_helpers
from ortpkg.distribution.registry.credentials import (
    Credentials,
    find_credentials,
    forget_credentials,
    keep_credentials,
)
from ortpkg.distribution.registry.secret import Secret
from ortpkg.foundations.errors import CredentialsError

HOST = "registry.example:5000"
PASSWORD = "correct:horse"
AUTH = base64.b64encode(f"ann:{PASSWORD}".encode()).decode()

Write = Callable[..., Path]


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of Docker's config file, which does not exist yet."""
    folder = tmp_path / "docker"
    monkeypatch.setenv("DOCKER_CONFIG", str(folder))
    return folder


@pytest.fixture
def write(docker: Path) -> Write:
    """Writes Docker's config file."""

    def write(**config: Any) -> Path:
        docker.mkdir(exist_ok=True)
        file = docker / "config.json"
        file.write_text(json.dumps(config))
        return file

    return write


@pytest.fixture
def helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a program ``docker-credential-fake`` on PATH, a shell script."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("KEPT", str(tmp_path / "kept"))

    def install(script: str) -> None:
        program = folder / "docker-credential-fake"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    return install


@pytest.mark.parametrize(
    "show", [repr, str, "{}".format, "{!r:>30}".format, lambda secret: f"{secret}"]
)
def test_a_secret_shows_nothing(show: Callable[[object], str]) -> None:
    credentials = Credentials(username="ann", password=Secret("hunter2"))
    for value in (credentials.password, credentials, [credentials]):
        assert "hunter2" not in show(value)


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy])
def test_a_secret_is_not_copied_into_a_file(copied: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match="a secret is not pickled"):
        copied(Secret("hunter2"))


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"auth": AUTH}, Credentials(username="ann", password=Secret(PASSWORD))),
        (
            {"username": "ann", "password": PASSWORD},
            Credentials(username="ann", password=Secret(PASSWORD)),
        ),
        ({"identitytoken": "it"}, Credentials(identity_token=Secret("it"))),
        ({"registrytoken": "rt"}, Credentials(registry_token=Secret("rt"))),
        ({}, None),
        ("text", None),
        ({"auth": 5}, None),
    ],
)
@pytest.mark.parametrize("key", [HOST, f"https://{HOST}/v1/"])
def test_an_entry_of_the_file_is_found(
    write: Write, key: str, entry: Any, expected: Credentials | None
) -> None:
    write(auths={key: entry, "other.example": {"auth": AUTH}})
    assert find_credentials(HOST) == expected


def test_nothing_is_known_without_a_file(docker: Path) -> None:
    assert find_credentials(HOST) is None


def test_another_hosts_credentials_are_not_taken(write: Write) -> None:
    write(auths={"registry.example": {"auth": AUTH}, "example:5000": {"auth": AUTH}})
    assert find_credentials(HOST) is None


def test_the_variable_comes_before_the_file(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write(auths={HOST: {"registrytoken": "of the file"}})
    text = json.dumps({"auths": {HOST: {"registrytoken": "of the variable"}}})
    monkeypatch.setenv("DOCKER_AUTH_CONFIG", text)
    found = find_credentials(HOST)
    assert found is not None
    assert found.registry_token.reveal() == "of the variable"


@pytest.mark.parametrize(
    "text", [b"{", b"[]", b'{"auths": ' + b"[" * 100_000, b"\xff", b'"' + b"x" * (5 << 20) + b'"']
)
def test_a_file_that_is_none_is_refused_without_its_text(docker: Path, text: bytes) -> None:
    docker.mkdir()
    (docker / "config.json").write_bytes(text)
    with pytest.raises(CredentialsError, match="is no JSON object") as caught:
        find_credentials(HOST)
    assert caught.value.exit_code == 8
    assert "auths" not in str(caught.value)


def test_a_wrong_entry_is_refused_without_its_text(write: Write) -> None:
    write(auths={HOST: {"auth": base64.b64encode(b"hunter2").decode()}})
    with pytest.raises(CredentialsError, match="is no base64 of USER:PASSWORD") as caught:
        find_credentials(HOST)
    assert "hunter2" not in str(caught.value)


def test_what_is_kept_is_found_again_and_all_else_stays(write: Write) -> None:
    file = write(auths={"other.example": {"auth": AUTH}}, psFormat="table")
    file.chmod(0o644)
    credentials = Credentials(username="ann", password=Secret(PASSWORD))
    assert keep_credentials(HOST, credentials) == str(file)
    assert find_credentials(HOST) == credentials
    kept = json.loads(file.read_text())
    assert (kept["psFormat"], kept["auths"]["other.example"]) == ("table", {"auth": AUTH})
    assert forget_credentials(HOST)
    assert find_credentials(HOST) is None
    assert json.loads(file.read_text())["auths"] == {"other.example": {"auth": AUTH}}
    assert not forget_credentials(HOST)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
def test_the_file_is_its_owners_alone_from_its_first_byte_on(
    docker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes = []
    rename = Path.replace

    def seen(source: Path, target: Path) -> Path:
        modes.append(stat.S_IMODE(source.stat().st_mode))
        return rename(source, target)

    monkeypatch.setattr(Path, "replace", seen)
    monkeypatch.setattr(Path, "chmod", lambda *_: None)  # not only afterwards
    umask = os.umask(0)
    try:
        keep_credentials(HOST, Credentials(username="ann", password=Secret(PASSWORD)))
    finally:
        os.umask(umask)
    assert modes == [0o600]
    assert stat.S_IMODE(docker.stat().st_mode) == 0o700


@pytest.mark.skipif(os.name == "nt", reason="Windows makes links for administrators only")
def test_a_file_that_is_a_link_stays_one(docker: Path, tmp_path: Path) -> None:
    docker.mkdir()
    (docker / "config.json").symlink_to(tmp_path / "elsewhere.json")
    keep_credentials(HOST, Credentials(username="ann", password=Secret(PASSWORD)))
    assert (docker / "config.json").is_symlink()
    assert HOST in (tmp_path / "elsewhere.json").read_text()


HELPER = """
case "$1" in
  get) read host; cat "$KEPT" 2>/dev/null || { echo "credentials not found in native keychain"; exit 1; } ;;
  store) cat > "$KEPT" ;;
  erase) rm "$KEPT" ;;
esac
"""


@pytest.mark.skipif(os.name == "nt", reason="the helper is a shell script")
@pytest.mark.parametrize("key", ["credsStore", "credHelpers"])
def test_a_helper_keeps_gives_and_forgets(
    write: Write, helper: Callable[[str], None], key: str
) -> None:
    file = write(**{key: "fake" if key == "credsStore" else {HOST: "fake"}})
    helper(HELPER)
    assert find_credentials(HOST) is None
    credentials = Credentials(username="ann", password=Secret(PASSWORD))
    assert keep_credentials(HOST, credentials) == "docker-credential-fake"
    assert find_credentials(HOST) == credentials
    assert PASSWORD not in file.read_text()
    assert AUTH not in file.read_text()
    assert forget_credentials(HOST)
    assert find_credentials(HOST) is None


@pytest.mark.skipif(os.name == "nt", reason="the helper is a shell script")
def test_a_helpers_token_is_an_identity_token(write: Write, helper: Callable[[str], None]) -> None:
    write(credsStore="fake")
    helper("""echo '{"ServerURL": "", "Username": "<token>", "Secret": "it"}'""")
    assert find_credentials(HOST) == Credentials(identity_token=Secret("it"))


@pytest.mark.skipif(os.name == "nt", reason="the helper is a shell script")
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo hunter2; exit 3", "get ended with status 3"),
        ("echo hunter2", "did not print Username and Secret"),
        ("""echo '{"Username": "hunter2"}'""", "did not print Username and Secret"),
        ("head -c 3000000 /dev/zero", "printed more than 1 MiB"),
        ("exec sleep 60", "did not answer within 0.3 s"),
    ],
)
def test_a_helper_that_fails_is_told_without_what_it_printed(
    write: Write,
    helper: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    message: str,
) -> None:
    write(credsStore="fake")
    helper(script)
    if "sleep" in script:
        monkeypatch.setattr(credential_helpers, "_MOST_S", 0.3)
    with pytest.raises(CredentialsError, match=message) as caught:
        find_credentials(HOST)
    assert "hunter2" not in str(caught.value)
    assert caught.value.is_helper_unusable


@pytest.mark.parametrize(
    ("name", "message"),
    [("missing", "which is not on PATH"), ("../evil", "is no name of a credential helper")],
)
def test_a_helper_that_is_not_there_is_told(write: Write, name: str, message: str) -> None:
    write(credsStore=name)
    with pytest.raises(CredentialsError, match=message):
        find_credentials(HOST)


@pytest.mark.skipif(sys.platform == "win32", reason="it has other pipes")
def test_a_pipe_in_place_of_the_file_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "pipes"))
    (tmp_path / "pipes").mkdir()
    os.mkfifo(tmp_path / "pipes" / "config.json")

    with pytest.raises(CredentialsError, match="it is no plain file"):
        find_credentials(HOST)


def test_without_the_helper_what_the_file_itself_has_counts(write: Write) -> None:
    write(credsStore="missing", auths={HOST: {"auth": "YW5uOnB3"}})

    found = find_credentials(HOST)

    assert found is not None
    assert (found.username, found.password.reveal()) == ("ann", "pw")
