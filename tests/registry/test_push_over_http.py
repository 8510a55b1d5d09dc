"""``ortpkg push`` to registries, with credentials where Docker keeps them."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from ortpkg.distribution.registry.descriptors import parse_descriptor
from tests.cli.conftest import DIGITS
from tests.cli.conftest import RunCommand as RunCommand
from tests.cli.conftest import ortpkg as ortpkg
from tests.registry.servers import PASSWORD, USER, Server
from tests.registry.test_oci_registry import read


@pytest.fixture(autouse=True)
def own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    """Docker's config file of the test; the server's certificate is trusted."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    auth = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    config = {"auths": {server.host: {"auth": auth}}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    if server.ca_file is not None:
        monkeypatch.setenv("SSL_CERT_FILE", str(server.ca_file))


def test_a_pushed_package_lies_in_the_registry(server: Server, ortpkg: RunCommand) -> None:
    done = ortpkg("push", DIGITS, f"oci://{server.host}/models/pushed:2", "--json")
    assert done.code == 0, done.err
    repository = server.repository("models/pushed")
    manifest = json.loads(repository.read_manifest(repository.resolve("2")))
    layers = [parse_descriptor(layer) for layer in manifest["layers"]]
    files = {path.read_bytes() for path in DIGITS.rglob("*") if path.is_file()}
    raw = [layer for layer in layers if layer.media_type.endswith(".raw")]
    assert len(raw) >= 5
    assert {read(repository, layer) for layer in raw} <= files


def test_a_package_that_is_there_is_not_sent_again(server: Server, ortpkg: RunCommand) -> None:
    where = f"oci://{server.host}/models/again"
    first = ortpkg("push", DIGITS, f"{where}:1", "--json").json
    second = ortpkg("push", DIGITS, f"{where}:2", "--json").json
    mounted = ortpkg(
        *("push", DIGITS, f"oci://{server.host}/models/mounted:1"),
        *("--mount-from", "models/again", "--json"),
    ).json
    assert first["sent_nbytes"] == first["nbytes"] > 0
    assert (second["sent_nbytes"], second["digest"]) == (0, first["digest"])
    assert mounted["sent_nbytes"] == 0
