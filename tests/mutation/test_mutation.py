"""What ``make mutants`` goes by, without a mutant: lines, tests, report."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.mutation.chosen import TIMED_OUT
from tests.mutation.lines import changed_lines, lines_of_diff, source_of
from tests.mutation.named import NAMED, read_named
from tests.mutation.report import (
    EXPLAINED,
    Outcome,
    Result,
    is_too_much,
    outcome_of,
    read_explanations,
    summary_of,
    text_of,
)
from tests.mutation.rooms import ROOMS
from tests.mutation.sampling import Mutant, is_python, places, sample
from tests.mutation.trial import (
    Copy,
    Reach,
    choose_tests,
    diff_of,
    in_parts,
    read_reach,
    recorded_reach,
)

CHECKOUT = Path(__file__).parents[2]

DIFF = """\
diff --git a/ortpkg/a.py b/ortpkg/a.py
--- a/ortpkg/a.py
+++ b/ortpkg/a.py
@@ -3 +3,2 @@ def f() -> int:
-    return 1
+    x = 1
+    return x
@@ -9,2 +10,0 @@ def g() -> int:
-    gone
-    gone too
@@ -20,0 +19 @@
+LAST = 1
diff --git a/ortpkg/gone.py b/ortpkg/gone.py
--- a/ortpkg/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-X = 1
"""

SOURCE = """\
@dataclass(frozen=True, slots=True)
class A:
    x: int | None = 1 + 2

    @property
    def y(self, z: int | None = None) -> int | None:
        def inner() -> int:
            return 1
        return inner()

if TYPE_CHECKING:
    import ast
B = field(default=1, repr=False)
C = zip([1], [2], strict=True)
"""


def result(outcome: Outcome = Outcome.SURVIVED, line: int = 3) -> Result:
    diff = ("-    if a and b:", "+    if a or b:")
    return Result(
        file="ortpkg/a.py",
        line=line,
        outcome=outcome,
        diff=diff,
        tests=2,
        reaching=5,
        duration_s=1.2,
    )


def mutant(line: int, column: int, operator: str = "core/AddNot", file: str = "a.py") -> Mutant:
    return {"file": file, "start": [line, column], "operator": operator, "occurrence": 0}


def test_lines_of_a_diff_are_those_that_are_new_or_changed() -> None:
    assert lines_of_diff(DIFF) == {"ortpkg/a.py": {3, 4, 19}}


def test_files_that_git_does_not_know_yet_are_changed_as_a_whole(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments],
            cwd=tmp_path,
            check=True,
        )

    package = tmp_path / "ortpkg" / "runtime" / "engine"
    package.mkdir(parents=True)
    Path(package, "old.py").write_text("A = 1\nB = 2\n")
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "first")
    Path(package, "old.py").write_text("A = 1\nB = 3\n")
    Path(package, "new.py").write_text("C = 1\nD = 2\n")
    Path(tmp_path, "ortpkg", "other.py").write_text("E = 1\n")

    assert changed_lines(tmp_path, "HEAD", "ortpkg/runtime/engine") == {
        "ortpkg/runtime/engine/old.py": {2},
        "ortpkg/runtime/engine/new.py": {1, 2},
    }
    with pytest.raises(SystemExit, match=r"git diff: .*nowhere"):
        changed_lines(tmp_path, "nowhere", "ortpkg/runtime/engine")


def test_what_means_nothing_at_run_time_is_left_alone() -> None:
    source = source_of(SOURCE)

    assert source.is_ignored((1, 18))  # frozen=True
    assert source.is_ignored((3, 11))  # int | None
    assert not source.is_ignored((3, 22))  # 1 + 2
    assert source.is_ignored((6, 23))
    assert not source.is_ignored((6, 32))  # the default
    assert source.is_ignored((6, 47))
    assert source.is_ignored((11, 0))
    assert source.is_ignored((13, 26))
    assert not source.is_ignored((13, 18))
    assert source.is_ignored((14, 25))
    assert not source.is_ignored((14, 9))


@pytest.mark.parametrize(
    ("line", "function"),
    [
        (1, None),
        (3, None),
        (5, "A.y"),
        (6, "A.y"),
        (8, "A.y.<locals>.inner"),
        (9, "A.y"),
    ],
)
def test_a_line_belongs_to_the_innermost_function_around_it(
    line: int, function: str | None
) -> None:
    assert source_of(SOURCE).function_at(line) == function


def test_places_are_on_changed_lines_and_hold_all_mutants_of_one_kind() -> None:
    plus = [mutant(3, 4, f"core/ReplaceBinaryOperator_Add_{other}") for other in ("Sub", "Mul")]
    mutants = [
        mutant(9, 4),
        *plus,
        mutant(3, 4),
        mutant(2, 0),
        mutant(3, 9, "core/ReplaceComparisonOperator_Eq_Is"),
    ]

    assert places(mutants, {"a.py": {3, 9}}, {"a.py": source_of("")}) == [
        [mutant(3, 4)],
        plus,
        [mutant(9, 4)],
    ]


def test_a_sample_is_random_and_the_same_for_the_same_seed() -> None:
    there_are = [[mutant(line, 0), mutant(line, 0, "core/Other")] for line in range(50)]

    assert (
        sample(there_are, 10, seed=1)
        == sample(there_are, 10, seed=1)
        != sample(there_are, 10, seed=2)
    )
    assert len({each["start"][0] for each in sample(there_are, 10, seed=1)}) == 10
    assert len(sample(there_are, 99, seed=1)) == 50


def test_tests_that_call_the_function_are_chosen_the_fast_ones_first_within_the_time() -> None:
    def reach(test: str, duration_s: float, function: str) -> Reach:
        return Reach(test=test, duration_s=duration_s, calls=frozenset({("a.py", function)}))

    tests = [
        reach("slow", 9, "f"),
        reach("other", 1, "g"),
        reach("quick", 2, "f"),
        reach("slowest", 30, "f"),
    ]

    assert choose_tests(tests, "a.py", "f", 20) == (["quick", "slow", "other"], 12, 4)
    # those that only call others of the file: last
    assert choose_tests(tests, "a.py", "f", 11)[0] == [
        "quick",
        "slow",
    ]
    assert choose_tests(tests, "a.py", "unseen", 3)[0] == ["other", "quick"]
    assert choose_tests(tests, "a.py", None, 100)[0] == ["other", "quick", "slow", "slowest"]
    assert choose_tests(tests, "a.py", "g", 0.5)[0] == ["other"]  # one is always tried
    assert choose_tests(tests, "b.py", "f", 20) == ([], 0, 0)


def test_tests_of_several_files_take_turns() -> None:
    names = ["b.py::quick", "b.py::slow", "b.py::slowest", "a.py::quick", "a.py::slow"]
    tests = [
        Reach(test=name, duration_s=duration_s, calls=frozenset({("c.py", "f")}))
        for name, duration_s in zip(names, [1, 2, 4, 3, 5], strict=True)
    ]

    chosen, _duration_s, _reaching = choose_tests(tests, "c.py", "f", 11)
    assert chosen == ["b.py::quick", "a.py::quick", "b.py::slow", "a.py::slow"]


def test_tests_of_the_modules_own_file_come_first() -> None:
    names = [
        "x/test_other.py::quick",
        "x/test_code.py::slow",
        "x/test_code.py::slower",
        "x/test_other.py::slowest",
    ]
    tests = [
        Reach(test=name, duration_s=duration_s, calls=frozenset({("room/code.py", "f")}))
        for name, duration_s in zip(names, [1, 4, 5, 6], strict=True)
    ]

    assert choose_tests(tests, "room/code.py", "f", 15)[0] == [names[1], names[2], names[0]]


def test_few_files_are_read_first() -> None:
    tests = ["a::1", "b::1", "c::1", "d::1", "e::1", "a::2", "d::2"]

    assert in_parts(tests) == [["a::1", "b::1", "c::1", "a::2"], ["d::1", "e::1", "d::2"]]
    assert in_parts(tests[:2]) == [tests[:2]]
    assert in_parts([]) == []


def test_tests_that_fail_by_themselves_are_told_apart() -> None:
    record = {
        "good": {"duration_s": 1, "calls": [["a.py", "f"]], "failed": False},
        "bad": {"failed": True},
    }
    reach, failed = read_reach(record)

    assert reach == [Reach(test="good", duration_s=1, calls=frozenset({("a.py", "f")}))]
    assert failed == ["bad"]


def test_a_survivor_is_explained_by_its_text_wherever_it_stands() -> None:
    (known,) = read_explanations(
        '[[survivor]]\nfile = "ortpkg/a.py"\nreason = "the same"\ndiff = """\n- if a and b:\n+ if a'
        ' or b:\n"""\n'
    )

    assert text_of(result(line=3), [known]).splitlines()[-1] == "    explained: the same"
    assert text_of(result(line=900), [known]).splitlines()[-1] == "    explained: the same"
    assert "explained" not in text_of(result(), [replace(known, file="ortpkg/b.py")])
    assert "explained" in text_of(result(), [replace(known, diff=known.diff[:1])])
    assert "explained" not in text_of(result(), [replace(known, diff=known.diff[1:])])
    with pytest.raises(ValueError, match="survivor 0: file, diff and reason are needed"):
        read_explanations('[[survivor]]\nfile = "a"\ndiff = "+ x"\nreason = " "\n')


def test_the_report_counts_and_shows_what_lives() -> None:
    outcomes = [Outcome.KILLED] * 7 + [Outcome.TIMEOUT, Outcome.SURVIVED, Outcome.UNREACHED]
    results = [result(outcome) for outcome in outcomes]

    assert (
        summary_of("engine", results, 400, [])
        == "engine: 10 tried of 400 places on changed lines: 7 killed, 1 timed out, 2 survived"
        " (22%; no test reaches 1), 0 of these explained"
    )
    assert (
        text_of(result())
        == "survived: ortpkg/a.py:3 (2 of 5 tests, 1 s)\n    -    if a and b:\n    +    if a or b:"
    )
    assert text_of(result(Outcome.KILLED)) == "killed: ortpkg/a.py:3 (2 of 5 tests, 1 s)"


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (0, Outcome.SURVIVED),
        (5, Outcome.SURVIVED),
        (1, Outcome.KILLED),
        (2, Outcome.KILLED),
        (None, Outcome.TIMEOUT),
    ],
)
def test_only_tests_that_ran_can_kill(code: int | None, outcome: Outcome) -> None:
    assert outcome_of(code) is outcome


@pytest.mark.parametrize(("living", "fails"), [(0, False), (1, False), (2, True)])
def test_more_than_a_tenth_of_unexplained_survivors_is_too_much(living: int, fails: bool) -> None:
    results = [result()] * living + [result(Outcome.KILLED)] * (10 - living)
    known = read_explanations(
        '[[survivor]]\nfile = "ortpkg/a.py"\nreason = "r"\ndiff = "- if a and b:\\n+ if a or b:"\n'
    )

    assert is_too_much(results, []) is fails
    assert is_too_much([*results, *[result(Outcome.TIMEOUT)] * 9], []) is fails
    assert not is_too_much(results, known)


def test_what_is_no_python_is_no_mutant() -> None:
    assert is_python(mutant(1, 0) | {"code": "def f(*, x): pass"})
    assert not is_python(mutant(1, 0) | {"code": "def f(-, x): pass"})


def test_a_diff_shows_what_a_mutant_replaces() -> None:
    assert diff_of("a = 1\nb = 2\n", "a = 1\nb = 3\n") == ["-b = 2", "+b = 3"]


def test_explanations_that_stand_in_the_project_are_of_files_and_lines_that_are_there() -> None:
    for each in read_explanations(EXPLAINED.read_text(encoding="utf-8")):
        lines = {
            " ".join(line.split())
            for line in Path(CHECKOUT, each.file).read_text(encoding="utf-8").splitlines()
        }
        assert {line[1:].strip() for line in each.diff if line.startswith("-")} <= lines, each


def test_named_mutants_change_one_place_and_their_tests_are_there() -> None:
    for each in read_named(NAMED.read_text(encoding="utf-8")):
        before = Path(CHECKOUT, each.file).read_text(encoding="utf-8")
        compile(each.applied(before), each.file, "exec")
        for test in each.tests:
            file, *_, name = test.split("::")
            assert f"def {name}(" in Path(CHECKOUT, file).read_text(encoding="utf-8"), test


def test_a_named_mutant_whose_text_is_not_there_once_is_an_error() -> None:
    (named,) = read_named(
        '[[mutant]]\nname = "n"\nfile = "f"\nold = "a"\nnew = "b"\ntests = ["t"]\n'
    )

    assert named.applied("xay") == "xby"
    with pytest.raises(ValueError, match="n: f has 2 of the text, not one: a"):
        named.applied("aa")
    with pytest.raises(ValueError, match="mutant 0: file, name, new, old, tests are needed"):
        read_named('[[mutant]]\nname = "n"\nfile = "f"\nold = "a"\nnew = "b"\ntests = []\n')


def test_each_room_and_its_folders_of_tests_are_there() -> None:
    for room, folders in ROOMS.items():
        assert Path(CHECKOUT, "ortpkg", room).is_dir()
        assert all(Path(CHECKOUT, folder).is_dir() for folder in folders)


PROJECT = {
    "ortpkg/__init__.py": "",
    "ortpkg/room/__init__.py": "",
    "ortpkg/room/code.py": "def f(x):\n    return x + 1\n\n\ndef g(x):\n    return x\n",
    "tests/test_it.py": (
        """
import subprocess, sys, time
import pytest
from ortpkg.room.code import f, g
def test_f(): assert f(1) == 2
def test_g(): assert g(1) == 1
def test_wrong(): assert g(f(1)) == 1
def test_child():
    subprocess.run([sys.executable, "-P", "-c", "from ortpkg.room.code import g; assert g(2) == 2"], check=True)
@pytest.mark.timeout(0.2)
def test_slow():
    time.sleep(9)
"""
    ),
    "pyproject.toml": (
        '[tool.pytest.ini_options]\npythonpath = ["."]\naddopts = "--import-mode=importlib"\n'
    ),
}


@pytest.mark.slow
def test_a_copy_of_a_checkout_tells_who_calls_what_and_which_mutant_dies(tmp_path: Path) -> None:
    checkout, folder = tmp_path / "checkout", tmp_path / "copy"
    names = ("reach.py", "chosen.py", "in_children/sitecustomize.py")
    tool = {
        f"tests/mutation/{name}": Path(__file__).parent.joinpath(name).read_text() for name in names
    }
    for name, text in (PROJECT | tool).items():
        path = checkout / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    subprocess.run(["git", "init", "--quiet"], cwd=checkout, check=True)
    copy = Copy(checkout, folder)

    reach, failed = read_reach(recorded_reach(copy, "tests", tmp_path / "reach.json"))
    assert failed == ["tests/test_it.py::test_slow", "tests/test_it.py::test_wrong"]
    assert choose_tests(reach, "ortpkg/room/code.py", "f", 0)[0] == ["tests/test_it.py::test_f"]
    calling_g = {
        each.test.partition("::")[2] for each in reach if ("ortpkg/room/code.py", "g") in each.calls
    }
    assert calling_g == {"test_g", "test_child"}

    def code_of(test: str) -> int | None:
        Path(tmp_path, "chosen.json").write_text(json.dumps([f"tests/test_it.py::{test}"]))
        arguments = ["-p", "tests.mutation.chosen", "tests/test_it.py"]
        return copy.pytest(arguments, 100, CHOSEN_FILE=str(tmp_path / "chosen.json"))

    copy.write("ortpkg/room/code.py", PROJECT["ortpkg/room/code.py"].replace("+", "-"))
    assert (code_of("test_f"), code_of("test_g"), code_of("test_slow"), code_of("gone")) == (
        1,
        0,
        TIMED_OUT,
        5,
    )
    assert Path(checkout, "ortpkg/room/code.py").read_text() == PROJECT["ortpkg/room/code.py"]


def test_what_tests_call_is_recorded_again_only_where_their_file_changed(tmp_path: Path) -> None:
    class Recording(Copy):
        asked: list[str]

        def record_reach(self, tests: Sequence[str]) -> tuple[dict[str, Any], int | None]:
            self.asked += tests
            return {f"{file}::test_it": {"file": file} for file in tests}, codes.pop()

    codes: list[int | None] = []
    files = [tmp_path / "tests" / name for name in ("test_a.py", "test_b.py")]
    files[0].parent.mkdir()
    for file in files:
        file.write_text("def test_it(): pass\n")
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)

    def asked_for() -> list[str]:
        copy = Recording(tmp_path, tmp_path / "build" / "copy")
        copy.asked = []
        recorded = recorded_reach(copy, "tests", tmp_path / "kept.json")
        assert recorded == {
            f"tests/{file.name}::test_it": {"file": f"tests/{file.name}"} for file in files
        }
        return copy.asked

    codes = [0]
    assert asked_for() == ["tests/test_a.py", "tests/test_b.py"]
    assert asked_for() == []
    files[1].write_text("def test_it(): ...\n")
    codes = [None]
    assert asked_for() == ["tests/test_b.py"]
    for file in files:
        file.write_text("def test_it(): return\n")
    codes = [1, 3]  # the last file of a run that ended early is run again
    assert asked_for() == ["tests/test_a.py", "tests/test_b.py", "tests/test_b.py"]


def test_what_hangs_is_stopped(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    Path(tmp_path, "test_it.py").write_text("import time\ndef test_it(): time.sleep(60)\n")

    assert Copy(tmp_path, tmp_path / "build").pytest(["test_it.py"], 2.0) is None
