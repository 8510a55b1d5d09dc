"""docs/plugins.md as a plug-in's author follows it: files, commands, what they print."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "examples" / "tape_ep"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROGRAMS = {
    "pip": [sys.executable, "-m", "pip"],
    "python": [sys.executable],
    "ortpkg": [sys.executable, "-m", "ortpkg"],
    "sed": ["sed"],
}


def _files() -> dict[str, str]:
    """Name → content of each block whose first line is a comment with a name."""
    found = {}
    for _, block in _BLOCK.findall(PAGE):
        first = re.match(r"# (\S+\.(?:toml|py))\n", block)
        if first:
            found[first[1]] = block
    return found


def _commands() -> list[tuple[list[str], list[str]]]:
    """The words of each command of the page, and the lines that it is said to print."""
    found: list[tuple[list[str], list[str]]] = []
    for language, block in _BLOCK.findall(PAGE):
        for line in block.splitlines() if language == "console" else ():
            if line.startswith("$ "):
                found.append((shlex.split(line[2:]), []))
            else:
                found[-1][1].append(line)
    return found


def _prints(text: str, line: str) -> bool:
    """Whether ``text`` has the parts of ``line`` between dots, in this order."""
    parts = [re.escape(part) for part in line.split()]
    return (
        re.search(
            r"\s+".join(parts).replace(r"\s+\.\.\.\s+", ".*?").replace(r"\.\.\.", ".*?"), text
        )
        is not None
    )


def test_the_example_is_what_the_page_says() -> None:
    files = {name: text for name, text in _files().items() if (EXAMPLE / name).exists()}
    assert sorted(files) == ["pyproject.toml", "tape_ep/factory.py", "tape_ep/provider.py"]
    for name, text in files.items():
        assert text == (EXAMPLE / name).read_text(encoding="utf-8"), (
            f"docs/plugins.md and examples differ in {name}"
        )


@pytest.mark.usefixtures("warm_processes")
@pytest.mark.timeout(900)
@pytest.mark.skipif(sys.platform == "win32", reason="the page edits a file with sed")
def test_the_page_is_enough_to_write_install_and_run_a_provider(tmp_path: Path) -> None:
    """The page's text alone: nothing is taken from the example's folder."""
    folder = tmp_path / "tape"
    for name, text in _files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    site = tmp_path / "site"
    folders = {
        f"ORTPKG_{name}_DIR": str(tmp_path / name.lower()) for name in ("STATE", "CACHE", "CONFIG")
    }
    # What pip needs to install beside this environment instead of into it, and to fetch nothing.
    pip = {
        "TARGET": str(site),
        "UPGRADE": "1",
        "NO_DEPS": "1",
        "NO_INDEX": "1",
        "NO_BUILD_ISOLATION": "0",
    }
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("PIP_")},
        **{f"PIP_{key}": value for key, value in pip.items()},
        **folders,
        "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)]),
        "COLUMNS": "200",
    }
    commands = _commands()
    assert len(commands) > 10
    for words, lines in commands:
        done = subprocess.run(
            [*_PROGRAMS[words[0]], *words[1:]],
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
            env=environment,
        )
        said = f"{done.stdout}\n{done.stderr}"
        assert done.returncode == 0, (words, said)
        for line in lines:
            assert _prints(said, line), (words, line, said)
