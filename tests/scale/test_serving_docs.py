"""docs/serving.md as a reader follows it: each server starts, each client gets its answer.

``guide_pages`` runs the blocks with machines (``NAME$``, ``python NAME``, ``log EVENT``).
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ortpkg
from tests.scale.serving_processes import ROOT, Serving, serving

pytestmark = [
    pytest.mark.scale,
    pytest.mark.shows("pages and manifests"),
    pytest.mark.timeout(900),
]

PAGE = ROOT / "docs" / "serving.md"
#: What another page of tests follows.
_ON_RAY = "\n## On a Ray cluster\n"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: Their own ports are free; where they listen for others, they need not in a test.
PLACE = re.compile(r"--(?:port|grpc-port|host) \S+")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the page's reader has: packages, two installed versions of one, keys and a token."""
    for name in ("digits.ortpackage", "tinychar.ortpackage"):
        shutil.copytree(ROOT / "sample_packages" / name, tmp_path / name)
    monkeypatch.setenv("ORTPKG_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    for tag in ("2", "3"):
        ortpkg.edit("digits.ortpackage", ortpkg.PackageEdits(version=f"{tag}.0"))
        ortpkg.push("digits.ortpackage", f"oci-layout:models:{tag}")
        ortpkg.install(f"oci-layout:models:{tag}", name="digits")
    (tmp_path / "token").write_text("open-sesame\n")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"),
            *("-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    return tmp_path


def at(server: Serving, text: str) -> str:
    """``text`` with the places where the server really listens."""
    http, grpc = (each.rpartition(":")[2] for each in (server.http, server.grpc))
    return text.replace(":8080", f":{http}").replace(":8081", f":{grpc}")


def test_every_block_of_the_page_runs(folder: Path) -> None:
    ran = 0
    with ExitStack() as stack:
        server: Serving | None = None
        for language, block in BLOCK.findall(
            PAGE.read_text(encoding="utf-8").partition(_ON_RAY)[0]
        ):
            if language == "python":
                assert server is not None
                names: dict[str, Any] = {"scan": np.zeros((1, 1, 8, 8), np.float32)}
                over_grpc = block.replace("tritonclient.http", "tritonclient.grpc")
                assert over_grpc != block
                for code in (block, over_grpc.replace(":8080", ":8081")):
                    exec(at(server, code), names)
                    assert names.pop("logits").shape == (1, 10)
                ran += 1
                continue
            if block.startswith("docker"):
                continue
            for line in block.splitlines():
                words = shlex.split(PLACE.sub("", line))
                if words[:2] == ["ortpkg", "serve"]:
                    stack.close()
                    server = stack.enter_context(serving(*words[2:], folder=folder))
                else:
                    assert words[0] == "curl"
                    assert server is not None
                    done = subprocess.run(
                        at(server, line), shell=True, capture_output=True, text=True, check=True
                    )
                    assert "digits" in done.stdout or "tiny" in done.stdout or "{" in done.stdout
                ran += 1
    assert ran >= 12


def test_tags_of_the_store_are_versions(folder: Path) -> None:
    with serving("digits:2", "digits:3", folder=folder) as server:
        pass
    loaded = [each for each in server.events if each["event"] == "loaded"]
    assert [(each["model"], each["version"]) for each in loaded] == [
        ("digits", "2"),
        ("digits", "3"),
    ]
