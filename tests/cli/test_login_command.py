"""``ortpkg login`` and ``ortpkg logout``."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import RunCommand
from tests.registry.in_process_registry import InProcessRegistry, running
from tests.registry.servers import PASSWORD, USER


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    return tmp_path / "docker" / "config.json"


@pytest.fixture(params=["bearer", "basic"])
def registry(request: pytest.FixtureRequest) -> Iterator[InProcessRegistry]:
    with running(InProcessRegistry(auth=request.param)) as running_registry:
        yield running_registry


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> io.BytesIO:
    """Standard input."""
    content = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(content))
    return content


def given(pipe: io.BytesIO, text: bytes) -> None:
    pipe.write(text)
    pipe.seek(0)


def test_a_password_that_works_is_kept_and_forgotten(
    ortpkg: RunCommand, registry: InProcessRegistry, config: Path, pipe: io.BytesIO
) -> None:
    given(pipe, f"{PASSWORD}\r\n".encode())
    done = ortpkg("login", registry.host, "-u", USER, "--password-stdin")
    assert (done.code, done.out) == (0, f"logged in to {registry.host} as {USER}\n")
    assert "not encrypted" in done.err
    assert PASSWORD not in done.out + done.err
    assert list(json.loads(config.read_text())["auths"]) == [registry.host]
    assert ortpkg("logout", registry.host).out == f"logged out of {registry.host}\n"
    assert json.loads(config.read_text()) == {"auths": {}}
    assert ortpkg("logout", registry.host, "--json").json["forgotten"] is False


def test_a_password_that_does_not_work_is_not_kept(
    ortpkg: RunCommand, registry: InProcessRegistry, config: Path, pipe: io.BytesIO
) -> None:
    given(pipe, b"hunter2")
    done = ortpkg("login", registry.host, "-u", USER, "--password-stdin")
    assert done.code == 8
    assert "does not take this user name with this password" in done.err
    assert "hunter2" not in done.out + done.err
    assert not config.exists()


def test_a_registry_that_asks_nobody_cannot_try_it(
    ortpkg: RunCommand, config: Path, pipe: io.BytesIO
) -> None:
    given(pipe, b"pw")
    with running(InProcessRegistry()) as registry:
        done = ortpkg("login", registry.host, "-u", USER, "--password-stdin", "--json")
    assert done.json["kept_in"] == str(config)
    assert "the password was not tried" in done.err


@pytest.mark.parametrize(
    ("words", "text", "message"),
    [
        (["a b"], b"", "is no registry; write host or host:port"),
        (["registry.example"], b"", "give the user name: --username USER"),
        (["registry.example", "-u", "ann"], b"pw", "give the password by --password-stdin"),
        (["registry.example", "-u", "a:b", "--password-stdin"], b"pw", "without a colon"),
        (["registry.example", "-u", "ann", "--password-stdin"], b"\n", "the password is empty"),
        (["registry.example", "-u", "ann", "--password-stdin"], b"\xff", "is not UTF-8"),
        (
            ["registry.example", "-u", "ann", "--password-stdin"],
            b"x" * 70_000,
            "has more than 65536 bytes",
        ),
    ],
)
def test_wrong_words_are_refused_before_anybody_is_asked(
    ortpkg: RunCommand,
    config: Path,
    pipe: io.BytesIO,
    words: list[str],
    text: bytes,
    message: str,
) -> None:
    given(pipe, text)
    done = ortpkg("login", *words)
    assert (done.code, message in done.err) == (2, True), done.err
    assert not config.exists()


def test_a_damaged_config_file_is_left_alone(
    ortpkg: RunCommand, registry: InProcessRegistry, config: Path, pipe: io.BytesIO
) -> None:
    config.parent.mkdir()
    config.write_text("{")
    given(pipe, PASSWORD.encode())
    done = ortpkg("login", registry.host, "-u", USER, "--password-stdin")
    assert done.code == 8
    assert "is no JSON object" in done.err
    assert config.read_text() == "{"
