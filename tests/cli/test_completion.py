"""What the shell offers behind options, and that it never gets an error instead."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ortpkg.cli import completion
from ortpkg.foundations.isolation import backend_probe
from ortpkg.runtime.providers.ep_discovery import ep_libraries
from ortpkg.runtime.providers.ep_discovery.ep_libraries import EpLibrary
from tests.cli.conftest import DIGITS

pytestmark = pytest.mark.usefixtures("warm_processes")


def offered(line: str, **environment: str) -> list[str]:
    """What bash would offer for the last word of ``line``."""
    words = line.split(" ")
    asked = {
        "_ORTPKG_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-m", "ortpkg"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **asked, **environment},
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ortpkg sel", ["select"]),
        (f"ortpkg select {DIGITS} --variant cpu", ["cpu-fp32", "cpu-int8"]),
        (f"ortpkg run {DIGITS} --component ", ["classifier"]),
        (f"ortpkg run {DIGITS} --input ", ["image="]),
        (f"ortpkg run {DIGITS} --backend o", ["openvino", "onnxruntime"]),
        (f"ortpkg run {DIGITS} --device ", ["cpu", "gpu", "npu"]),
        (f"ortpkg select {DIGITS} --ep cud", ["cuda"]),
        (f"ortpkg select {DIGITS} --policy prefer-", ["prefer-npu", "prefer-gpu", "prefer-cpu"]),
        (
            f"ortpkg select {DIGITS} --compat ",
            ["onnxruntime-1.32", "onnxruntime-1.31", "onnxruntime-1.30"],
        ),
        (f"ortpkg remove-variant {DIGITS} op", ["openvino-npu", "openvino-gpu"]),
        ("ortpkg init p --format m", ["metadata"]),
        (f"ortpkg slim {DIGITS} --device g", ["gpu"]),
    ],
)
def test_values_are_offered(line: str, words: list[str]) -> None:
    assert offered(line) == words


@pytest.mark.parametrize("package", ["missing", "damaged"])
def test_a_package_that_cannot_be_read_offers_nothing(tmp_path: Path, package: str) -> None:
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "manifest.json").write_text("{", encoding="utf-8")
    assert offered(f"ortpkg run {tmp_path / package} --variant ") == []


def test_the_names_of_the_package_around_the_current_folder_are_offered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(DIGITS / "models")
    assert offered("ortpkg run --variant cpu") == ["cpu-fp32", "cpu-int8"]


def test_no_package_offers_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert offered("ortpkg run --variant ") == []


def test_names_of_installed_eps_are_offered_from_memory_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(backend_probe, "_ANSWERS", {})
    asked: list[str] = []
    monkeypatch.setattr(backend_probe, "_ask_child", lambda *_: asked.append("a child"))

    def libraries() -> tuple[EpLibrary, ...]:
        backend_probe.ask_backend("module:function", {}, fingerprint={})
        return (EpLibrary("ggml-of-acme", "onnxruntime-acme", "1", "/x"),)

    monkeypatch.setattr(ep_libraries, "installed_ep_libraries", libraries)
    assert completion.complete_ep(None, "ggml") == ["ggml-of-acme"]
    assert asked == []
