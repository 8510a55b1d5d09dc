"""Run docs/package_manager.md and write it anew: ``python -m tests.distribution.package_manager_page``.

A line ``NAME$ ortpkg ...`` in a block is a command on that machine; its output stands below it,
without what differs from one run to the next. ``# ends with N`` behind it is its exit code.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from ortpkg.cli.app import run
from ortpkg.distribution import used_packages

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "package_manager.md"
_MODELS = ROOT / "sample_packages" / "digits.ortpackage" / "models" / "classifier"
_POLICY = "trust.toml"
_PROMPT = re.compile(r"(\w+)\$ ortpkg (.*?)(?:  # ends with (\d))?")
_VARYING = (
    (re.compile(r"[0-9a-f]{64}(/[0-9a-f]{16}\b)?|(?<=sha256:)[0-9a-f]{12}\b(\.\.\.)?"), "…"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?Z?"), "2026-11-23 09:00"),
    (re.compile(r"\d+(\.\d+)? (ms|µs|s)\b"), "… ms"),
    (re.compile(r"(on \w+ \(onnxruntime\), cpu) .*"), r"\1"),
    (re.compile(r"(\(onnxruntime, CPU) .*?\): "), r"\1): "),
    # Receipts are counted, which say from which folder.
    (re.compile(r"(package …,|freed) [1-9][\d.]* kB"), r"\1 … kB"),
    (re.compile(r"\[-?\d+\.\d.*\]"), "[…]"),
)


def told(page: str, folder: Path) -> str:
    """The page with what its commands print now. AssertionError for an unexpected exit code."""
    for name, model in (("int8", "cpu-int8"), ("fp16", "cuda")):
        shutil.copy(_MODELS / model / "model.onnx", folder / f"{name}.onnx")
    with contextlib.chdir(folder):
        return "\n".join(_lines(page.split("\n"), folder))


def _lines(lines: list[str], folder: Path) -> Iterator[str]:
    language: str | None = None  # of the block that a line is in
    is_output = False
    policy: list[str] = []
    for line in lines:
        if line.startswith("```"):
            if language == "toml":
                (folder / _POLICY).write_text("\n".join(policy))
            language = line[3:] if language is None else None
            is_output = False
        elif language == "toml":
            policy.append(line)
        elif language == "" and (command := _PROMPT.fullmatch(line)):
            yield line
            yield from _printed(folder, *command.groups())
            is_output = True
            continue
        if not is_output:
            yield line


def _printed(folder: Path, machine: str, words: str, code: str | None) -> Iterator[str]:
    said = io.StringIO()
    environment = {"ORTPKG_STORE": str(folder / machine), "ORTPKG_TRUST_POLICY": ""}
    if machine == "server":
        environment["ORTPKG_TRUST_POLICY"] = str(folder / _POLICY)
    else:
        del environment["ORTPKG_TRUST_POLICY"]
    with (
        mock.patch.dict(os.environ, environment),
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(said),
    ):
        found = run(shlex.split(words))
    shown = said.getvalue().replace(f"{folder / machine}", f"/home/{machine}/store")
    shown = shown.replace(str(folder), "/srv")
    used_packages._used.clear()  # as if each command were a process of its own
    assert found == int(code or 0), (words, found, shown)
    for pattern, common in _VARYING:
        shown = pattern.sub(common, shown)
    lines = [line.rstrip() for line in shown.splitlines()]
    for is_blob, group in itertools.groupby(lines, lambda line: line.startswith("blob ")):
        lines_of_group = list(group)
        yield from (
            sorted(lines_of_group) if is_blob else lines_of_group
        )  # by digests, which are left out


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        page = told(PAGE.read_text(encoding="utf-8"), Path(name).resolve())
    PAGE.write_text(page, encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
