"""Pins of what servers install, and a container file that uses them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

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
