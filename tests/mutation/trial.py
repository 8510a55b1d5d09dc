"""A copy of the checkout in which mutants are tried, one at a time."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: No test of these takes longer by itself, so one that does is hanging.
TEST_TIMEOUT_S = 60

RECORDING_LIMIT_S = 3600

_FIRST_FILES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What one test calls, and how long it takes."""

    test: str
    duration_s: float
    calls: frozenset[tuple[str, str]]
    """Files, and qualified names of functions in them."""


class Copy:
    """The files of a checkout that git has or would add, in a folder with a home."""

    def __init__(self, checkout: Path, folder: Path) -> None:
        self.root = folder / "checkout"
        self._scratch = folder / "scratch"
        self._written = 0
        listed = subprocess.run(
            [
                "git",
                "-C",
                str(checkout),
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ],
            capture_output=True,
            check=True,
        )
        for name in sorted({os.fsdecode(each) for each in listed.stdout.split(b"\0") if each}):
            source, target = checkout / name, self.root / name
            if source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)

    def text(self, file: str) -> str:
        return Path(self.root, file).read_text(encoding="utf-8")

    def write(self, file: str, text: str) -> None:
        """Replaces a file's text.

        Its time is new to the second, so that no compiled file is taken for it.
        """
        self._written += 1
        path = self.root / file
        path.write_text(text, encoding="utf-8", newline="")
        moment_s = int(time.time()) - 1_000_000 + 2 * self._written
        os.utime(path, (moment_s, moment_s))

    def pytest(self, arguments: Sequence[str], limit_s: float, **variables: str) -> int | None:
        """The exit code of pytest in the copy.

        None where it had to be stopped, with all that it started.
        """
        shutil.rmtree(self._scratch, ignore_errors=True)
        home = self._scratch / "home"
        home.mkdir(parents=True)
        environment = os.environ | variables
        environment |= {
            "PYTHONPATH": str(self.root),
            "HOME": str(home),
            "TMPDIR": str(self._scratch),
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", f"--timeout={TEST_TIMEOUT_S}", *arguments],
            cwd=self.root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return process.wait(timeout=limit_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def test_files(self, folder: str) -> dict[str, str]:
        """The files of tests in a folder, and digests of their text."""
        files = sorted(Path(self.root, folder).rglob("test_*.py"))
        return {
            file.relative_to(self.root).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
            for file in files
        }

    def record_reach(self, tests: Sequence[str]) -> tuple[dict[str, Any], int | None]:
        """Runs the tests of files once, unchanged.

        What each calls, as far as the run came, and its exit code.
        """
        below, file = str(self.root / "ortpkg"), self.root.parent / "reach.json"
        file.unlink(missing_ok=True)
        arguments = ["--timeout=600", "-p", "tests.mutation.reach", *tests]
        code = self.pytest(arguments, RECORDING_LIMIT_S, REACH_FOLDER=below, REACH_FILE=str(file))
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        return {test["name"]: test for test in map(json.loads, lines)}, code


def recorded_reach(copy: Copy, folder: str, kept: Path) -> dict[str, Any]:
    """What the tests of a folder call, from the file ``kept``; what it lacks is recorded and added.

    Files of tests are recorded anew where their text changed, not where what they test did:
    functions are known by name, so that a test seldom reaches others than before.
    """
    text = kept.read_text(encoding="utf-8") if kept.exists() else "{}"
    digests = copy.test_files(folder)
    known = {
        file: each for file, each in json.loads(text).items() if digests.get(file) == each["digest"]
    }
    while missing := sorted(digests.keys() - known.keys()):
        print(
            f"running {len(missing)} files of {folder} once, to see what each test calls",
            flush=True,
        )
        recorded, code = copy.record_reach(missing)
        by_file: dict[str, dict[str, Any]] = {}
        for name, test in recorded.items():
            by_file.setdefault(name.partition("::")[0], {})[name] = test
        if code not in {0, 1}:  # it ended early, in the midst of the last file
            print(f"pytest ended with {code}", flush=True)
            begun = list(by_file)[-1] if by_file else missing[0]
            by_file = {file: by_file[file] for file in by_file if file != begun} or {
                begun: by_file.get(begun, {})
            }
        else:
            by_file = {file: by_file.get(file, {}) for file in missing}
        known |= {
            file: {"digest": digests[file], "tests": tests} for file, tests in by_file.items()
        }
        kept.write_text(json.dumps(known), encoding="utf-8")
    return {name: test for each in known.values() for name, test in each["tests"].items()}


def read_reach(tests: Mapping[str, Any]) -> tuple[list[Reach], list[str]]:
    """What tests reach, and which of them fail without mutants and so tell nothing."""
    reach = [
        Reach(
            test=name,
            duration_s=test["duration_s"],
            calls=frozenset((file, name) for file, name in test["calls"]),
        )
        for name, test in tests.items()
        if not test["failed"]
    ]
    return reach, sorted(name for name, test in tests.items() if test["failed"])


def choose_tests(
    reach: Sequence[Reach], file: str, function: str | None, budget_s: float
) -> tuple[list[str], float, int]:
    """The tests that call a function, or anything in its file where it is None.

    What they took; and how many there are.

    Those of the module's own file of tests first. Then the fastest of each file, the second of
    each, and so on: those of one file ask about the same. Where there is time left, then those that
    call anything else in the function's file: a fixture or a cache may have called it for them
    before. No more than take ``budget_s`` together.
    """
    calling = [each for each in reach if function is not None and (file, function) in each.calls]
    called = {each.test for each in calling}
    near = [
        each
        for each in reach
        if each.test not in called and any(name == file for name, _ in each.calls)
    ]
    ordered = _in_turns(calling, file) + _in_turns(near, file)
    chosen: list[str] = []
    total_s = 0.0
    for each in ordered:
        if not chosen or total_s + each.duration_s <= budget_s:
            chosen.append(each.test)
            total_s += each.duration_s
    return chosen, total_s, len(ordered)


def in_parts(tests: Sequence[str]) -> list[list[str]]:
    """Tests of the first few files, then the others: most mutants die of the first."""
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))[:_FIRST_FILES]
    first = [test for test in tests if test.partition("::")[0] in files]
    others = [test for test in tests if test.partition("::")[0] not in files]
    return [part for part in (first, others) if part]


def _in_turns(reaching: Sequence[Reach], file: str) -> list[Reach]:
    own = f"test_{Path(file).name}"
    of_file: Counter[str] = Counter()
    turns: dict[str, int] = {}
    fast_first = sorted(reaching, key=lambda each: each.duration_s)
    for each in fast_first:
        file_of_tests = each.test.partition("::")[0]
        of_file[file_of_tests] += 1
        turns[each.test] = 0 if Path(file_of_tests).name == own else of_file[file_of_tests]
    return sorted(fast_first, key=lambda each: turns[each.test])


def diff_of(before: str, after: str) -> list[str]:
    """The lines that a mutant takes away and puts in their place."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    return [line for line in lines if line[:1] in "+-" and line[:3] not in {"+++", "---"}]


def ask_cosmic_ray(python: Path, root: Path, request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What ``mutants.py`` answers, run in ``root`` by the Python that has cosmic-ray."""
    finished = subprocess.run(
        [str(python), "-P", str(root / "tests" / "mutation" / "mutants.py")],
        cwd=root,
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=False,
    )
    if finished.returncode:
        raise SystemExit(f"cosmic-ray failed:\n{finished.stderr}")
    answer: list[dict[str, Any]] = json.loads(finished.stdout)
    return answer
