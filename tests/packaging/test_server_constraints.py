"""Pins of what servers install, and a container file that uses them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PIN = re.compile(r"([A-Za-z0-9._-]+)==(\S+)")


def pins() -> dict[str, Version]:
    found: dict[str, Version] = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        match = PIN.fullmatch(line)
        assert match is not None, line
        name = canonicalize_name(match[1])
        assert name not in found, line
        found[name] = Version(match[2])
    return found


def test_whatever_servers_ask_for_is_pinned_within_its_bounds() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    pinned = pins()
    for text in [
        *project["dependencies"],
        *extras["serve"],
        *extras["ray"],
        *extras["onnxruntime"],
    ]:
        wanted = Requirement(text)
        assert pinned[canonicalize_name(wanted.name)] in wanted.specifier, text
    assert "hatchling" in pinned


def test_the_container_file_uses_them_and_names_no_base_by_tag() -> None:
    text = (ROOT / "deploy/Containerfile").read_text()
    assert "PIP_CONSTRAINT=constraints.txt" in text
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert bases == ["${PYTHON_IMAGE}"] * 2
    assert re.search(r"^ARG PYTHON_IMAGE$", text, re.MULTILINE)


@pytest.mark.skipif(os.name != "posix", reason="a POSIX shell")
@pytest.mark.parametrize(
    ("image", "code"),
    [("python:3.12-slim", 1), (f"python:3.12-slim@sha256:{'0' * 64}", 0), ("", 1)],
)
def test_a_base_without_a_digest_is_refused(image: str, code: int) -> None:
    text = (ROOT / "deploy/Containerfile").read_text()
    (check,) = re.findall(r"^RUN (case .*)$", text, re.MULTILINE)
    done = subprocess.run(
        ["sh", "-c", check],
        env={"PYTHON_IMAGE": image},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code
    assert ("by its digest" in done.stderr) == bool(code)


def test_what_the_container_file_copies_is_enough_to_build_the_wheel(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    text = (ROOT / "deploy/Containerfile").read_text()
    for words in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE):
        *names, target = words.split()
        for name in names:
            place = source / target
            if (ROOT / name).is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(ROOT / name, place, ignore=ignored)
            else:
                place.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, place)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist"]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list((source / "dist").glob("ortpkg-*.whl"))) == 1
