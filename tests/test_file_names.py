"""A file's name says one thing: no two modules have one, unless one is the command of the other."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from ortpkg.cli.app import COMMANDS

ROOT = Path(__file__).resolve().parents[1] / "ortpkg"


def test_no_two_modules_have_one_name() -> None:
    commands = {name.replace("-", "_") for name in COMMANDS}
    places = defaultdict(list)
    for path in ROOT.rglob("*.py"):
        folder = path.parent.relative_to(ROOT).as_posix()
        is_command = folder == "cli" and path.stem in commands
        if path.stem not in ("__init__", "__main__") and not is_command:
            places[path.stem].append(folder)

    assert {name: where for name, where in places.items() if len(where) > 1} == {}
