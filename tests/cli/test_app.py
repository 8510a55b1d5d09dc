"""The command line as a whole: help, versions, mistyped words, exit codes, errors."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ortpkg as ortpkg_package
from ortpkg.cli.app import COMMANDS
from ortpkg.cli.command_aliases import MEANT_COMMANDS
from ortpkg.cli.help import COMMON, EXAMPLES, GROUPS, SUMMARIES
from ortpkg.foundations.errors import ExitCode, VerifyExitCode
from ortpkg.foundations.version import __version__
from ortpkg.machine.policies import POLICIES, RELEASE_POLICIES
from tests.cli.conftest import DIGITS, HelpOf, RunCommand
from tests.conftest import FEW_SAMPLES

ROOT = Path(__file__).resolve().parents[2]


def test_help_names_every_command_on_a_screen_of_60_lines(
    ortpkg: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = ortpkg("--help")
    assert done.code == 0
    lines = done.out.splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 80
    assert COMMANDS.keys() <= set(done.out.replace(",", " ").split())
    for name in COMMON:
        (line,) = [line for line in lines if line.startswith(f"  {name:<14}  ")]
        assert line.endswith(f"  {SUMMARIES[name]}")
    assert "--help-all" in done.out


def test_the_whole_help_has_a_line_for_every_command_and_the_exit_codes(
    ortpkg: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = ortpkg("--help-all")
    assert done.code == 0
    for name, summary in SUMMARIES.items():
        assert f"\n  {name:<14}  {summary}\n" in done.out
    assert "no suitable variant" in done.out
    assert "refused for lack of trust" in done.out
    listed = done.out.partition("Exit codes")[2]
    for code in (*ExitCode, *VerifyExitCode):
        assert f"\n  {code.value} " in listed


def test_help_groups_every_command_and_has_examples_that_exist(
    ortpkg: RunCommand, help_of: HelpOf
) -> None:
    grouped = [name for summaries in GROUPS.values() for name in summaries]
    assert COMMANDS.keys() - set(grouped) == set(), "enter them in GROUPS of ortpkg/cli/help.py"
    assert len(grouped) == len(set(grouped))
    assert COMMANDS.keys() - EXAMPLES.keys() == set(), (
        "enter them in EXAMPLES of ortpkg/cli/help.py"
    )
    assert EXAMPLES.keys() - COMMANDS.keys() == set(), "EXAMPLES has commands that are gone"
    for name, lines in EXAMPLES.items():
        assert all(line.startswith(f"ortpkg {name} ") for line in lines)
        options = {word for line in lines for word in line.split() if word.startswith("--")}
        shown = help_of(name).out
        assert options <= set(shown.replace(",", " ").split())
        assert lines[0].split()[-1] in shown.split("\nExamples\n")[1]
    assert "--input image=scan.npy" in ortpkg("help", "run").out


@pytest.mark.parametrize(
    "words", [["--help"], ["-h"], ["help"], ["-q", "--help"], ["--help", "select"]]
)
def test_help_is_the_same_however_it_is_asked_for_and_loads_no_command(words: list[str]) -> None:
    program = (
        f"import sys; from ortpkg.cli.app import run; run({words!r});"
        " print(any(name.startswith('ortpkg.cli.select') or name == 'rich.table' for name in"
        " sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("Usage: ortpkg [OPTIONS] COMMAND")
    assert done.stdout.splitlines()[-1] == "False"


def test_help_of_a_command_is_asked_for_by_name(ortpkg: RunCommand) -> None:
    assert ortpkg("help", "select").out == ortpkg("select", "--help").out
    assert "Usage: ortpkg select" in ortpkg("help", "select").out
    wrong = ortpkg("help", "selct")
    assert (wrong.code, "did you mean 'select'?" in wrong.err) == (2, True)
    assert ortpkg("-V").out == ortpkg("--version").out


def test_every_policy_stands_in_the_help(ortpkg: RunCommand) -> None:
    shown = ortpkg("select", "--help").out
    assert all(name in shown for name in (*POLICIES, *RELEASE_POLICIES))


def test_no_text_for_users_names_a_file_that_the_wheel_lacks_or_an_index_without_ortpkg() -> None:
    """Docstrings and comments may; what is printed may not."""
    folder = Path(ortpkg_package.__file__).parent
    for path in folder.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "docs/" not in text and "pip install" not in text:
            continue
        tree = ast.parse(text)
        docstrings = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and id(node) not in docstrings
            ):
                assert not re.search(r"docs/\w+\.md|pip install '?ortpkg", node.value), (
                    f"{path}: {node.value}"
                )


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_of_its_own(help_of: HelpOf, name: str) -> None:
    done = help_of(name)
    assert done.code == 0
    assert f"ortpkg {name}" in done.out
    assert "--json" in done.out
    # typer sets brackets and dots itself; its newest would also call a flag <bool>.
    assert not re.search(r"\[\[|\.[]}]|<bool>", done.out.split(f"ortpkg {name}", 1)[1])


#: ``ortpkg("select", ...)`` and ``run(["select", ...])``; a call for help calls nothing.
_CALL = re.compile(r'\b(?:ortpkg\(|run\(\[)\s*"([a-z-]+)"(?!\s*,\s*"--help")\s*[],)]')


def _commands_called() -> set[str]:
    """The first words of command lines in the tests."""
    texts = (path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    return {word for text in texts for word in _CALL.findall(text)}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_parameters_of_a_command_are_named_types(name: str) -> None:
    """An option is declared above the command, or with those that several commands share."""
    source = ROOT / f"{COMMANDS[name].replace('.', '/')}.py"
    (command,) = (
        each
        for each in ast.parse(source.read_bytes()).body
        if isinstance(each, ast.FunctionDef) and each.name == "command"
    )
    kinds = {type(each.annotation) for each in (*command.args.args, *command.args.kwonlyargs)}
    assert kinds <= {ast.Name}


def test_every_command_is_called_by_a_test() -> None:
    assert COMMANDS.keys() - _commands_called() == set(), "add a test in tests/cli"


@pytest.mark.usefixtures("warm_processes")
@pytest.mark.parametrize(
    "distribution", ["onnxruntime_openvino", "onnxruntime_gpu", "onnxruntime_directml"]
)
def test_version_names_the_distribution_that_brings_onnxruntime(
    distribution: str, tmp_path: Path
) -> None:
    (tmp_path / "onnxruntime").mkdir()
    (tmp_path / "onnxruntime" / "__init__.py").touch()
    information = tmp_path / f"{distribution}-1.24.1.dist-info"
    information.mkdir()
    name = distribution.replace("_", "-")
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.24.1\n")
    (information / "RECORD").write_text("onnxruntime/__init__.py,,\n")
    words = [sys.executable, "-m", "ortpkg", "--version"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert f"{name} 1.24.1\n" in done.stdout


def test_version_names_what_runs_models(ortpkg: RunCommand) -> None:
    done = ortpkg("--version")
    assert done.code == 0
    assert done.out.startswith("ortpkg ")
    assert "onnx " in done.out


def test_a_mistyped_command_is_a_usage_error_with_a_suggestion(ortpkg: RunCommand) -> None:
    done = ortpkg("selct", DIGITS)
    assert done.code == 2
    assert "there is no command 'selct' (did you mean 'select'?)" in done.err


@pytest.mark.parametrize(("word", "meant"), MEANT_COMMANDS.items())
def test_another_tools_name_of_a_command_says_which_is_meant(
    ortpkg: RunCommand, word: str, meant: tuple[str, ...]
) -> None:
    assert set(meant) <= set(COMMANDS)
    assert word not in COMMANDS
    done = ortpkg(word, "digits")
    commands = " or ".join(f"ortpkg {name}" for name in meant)
    assert (done.code, done.out) == (2, "")
    assert f"no command '{word}' (did you mean {commands}?)" in done.err.replace("\n", " ")


def test_the_version_is_that_of_the_newest_heading_in_the_changelog() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    newest = re.search(r"^## (\S+)", text, re.MULTILINE)
    assert newest is not None
    assert __version__.partition(".dev")[0] == newest[1]


def test_a_mistyped_option_is_a_usage_error(ortpkg: RunCommand) -> None:
    done = ortpkg("select", DIGITS, "--devise", "npu")
    assert done.code == 2
    assert "--devise" in done.err
    assert "ortpkg select --help" in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["select", DIGITS, "--devise", "npu"], "No such option: --devise"),
        (["pack"], "Missing argument 'PKG'"),
        (
            ["run", DIGITS, "--timeout", "soon"],
            "'soon' is no duration above 0; write e.g. 5ms, 90s or 10min",
        ),
        (["run", DIGITS, "--timeout", "0"], "'0' is no duration above 0"),
        (
            ["run", DIGITS, "--memory-limit", "0"],
            "'0' is no size above 0; write e.g. 64kB, 500MB or 1.5GiB",
        ),
        (["selct", DIGITS], "there is no command 'selct' (did you mean 'select'?)"),
        (["inspect", DIGITS, "more"], "unexpected extra argument"),
        (["create", "p.ortpackage", "a.onnx"], "as --cpu MODEL; see ortpkg create --help"),
    ],
)
def test_wrong_usage_is_json_too_where_json_was_asked_for(
    ortpkg: RunCommand, words: list[object], message: str
) -> None:
    done = ortpkg(*words, "--json")
    assert done.code == 2
    error = done.json["error"]
    assert (error["type"], error["exit_code"]) == ("UsageError", 2)
    assert message in error["message"]
    assert message in done.err
    text = ortpkg(*words)
    assert (text.code, text.out) == (2, "")
    assert text.err.startswith("error: ")


def test_no_word_shows_the_help_and_is_wrong_usage(ortpkg: RunCommand) -> None:
    done = ortpkg()
    assert done.code == 2
    assert "inspect" in done.out


@pytest.mark.parametrize(("before", "after"), [(["--quiet"], []), ([], ["-q"])])
def test_quiet_prints_nothing_but_data(
    ortpkg: RunCommand, few_digits: Path, before: list[str], after: list[str]
) -> None:
    done = ortpkg(*before, "run", few_digits, *after, "--backend", "embedded")
    assert (done.code, done.err) == (0, "")
    assert f"12 of {len(FEW_SAMPLES)} right" in done.out
    assert ortpkg("run", few_digits, "--backend", "embedded").err != ""


def test_quiet_does_not_hide_errors(ortpkg: RunCommand, tmp_path: Path) -> None:
    done = ortpkg("inspect", tmp_path / "nothing", "--quiet")
    assert done.code == 4
    assert done.err.startswith("error: ")


def test_the_help_of_a_command_loads_that_command_only(ortpkg: RunCommand) -> None:
    program = (
        "import sys; from ortpkg.cli.app import run; run(['--quiet', 'devices', '--help']); "
        "print('ortpkg.cli.create' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "False"


def test_a_missing_package_is_one_line_and_exit_code_4(ortpkg: RunCommand, tmp_path: Path) -> None:
    done = ortpkg("inspect", tmp_path / "nothing")
    assert done.code == 4
    assert done.out == ""
    assert done.err.startswith("error: ")
    assert "Traceback" not in done.err


def test_an_error_is_json_too_where_json_was_asked_for(ortpkg: RunCommand, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"model_name": 3}', encoding="utf-8")
    done = ortpkg("inspect", tmp_path, "--json")
    assert done.code == 4
    assert done.json["schema_version"] == "1.0"
    assert done.json["kind"] == "error"
    error = done.json["error"]
    assert (error["type"], error["exit_code"]) == ("PackageFormatError", 4)
    assert error["findings"][0]["pointer"] == "/model_name"


def test_a_bug_of_ours_is_told_apart_from_every_other_failure(
    ortpkg: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.delenv("ORTPKG_TRACEBACK", raising=False)
    monkeypatch.setattr("ortpkg.cli.inspect.opened", fail)
    done = ortpkg("inspect", DIGITS)
    assert done.code == 70
    assert "a bug in ortpkg: ZeroDivisionError" in done.err


def test_an_interrupt_is_exit_code_130(ortpkg: RunCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ortpkg.cli.inspect.opened", interrupt)
    done = ortpkg("inspect", DIGITS)
    assert (done.code, done.err) == (130, "cancelled\n")


def test_nothing_is_coloured_when_piped() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ortpkg", "select", str(DIGITS), "--explain"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.usefixtures("warm_processes")
def test_completion_knows_the_commands() -> None:
    environment = {
        "_ORTPKG_COMPLETE": "complete_bash",
        "COMP_WORDS": "ortpkg sel",
        "COMP_CWORD": "1",
        "PATH": "",
    }
    done = subprocess.run(
        [sys.executable, "-m", "ortpkg"],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.stdout.split() == ["select"]


@pytest.mark.parametrize(
    ("line", "loaded"), [("ortpkg s", []), ("ortpkg devices --fac", ["ortpkg.cli.devices"])]
)
def test_completion_loads_no_command_but_the_one_that_is_written(
    line: str, loaded: list[str]
) -> None:
    program = """
import sys
from ortpkg.cli.app import COMMANDS, run
try:
    run([])
finally:
    print(sorted(set(COMMANDS.values()) & set(sys.modules)), file=sys.stderr)
"""
    asked = {"_ORTPKG_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": line}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **asked},
    )
    assert done.stderr == f"{loaded}\n"
    assert ("select" if not loaded else "--facts") in done.stdout


def test_a_package_that_cannot_be_read_is_no_wrong_usage(tmp_path: Path) -> None:
    package = tmp_path / "p.ortpackage"
    package.mkdir()
    (package / "manifest.json").write_text("{}", encoding="utf-8")
    package.chmod(0)
    words = [sys.executable, "-m", "ortpkg", "inspect", str(package)]
    if os.access(package, os.R_OK):  # root may read all, unless it gives up the right to
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            pytest.skip("runs as root, and there is no setpriv")
        words = [setpriv, "--bounding-set=-dac_override,-dac_read_search", *words]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    package.chmod(0o700)
    assert done.returncode == 4, done.stderr
    assert "Permission denied" in done.stderr


def test_a_file_that_the_system_refuses_is_no_bug_of_ours(
    ortpkg: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "/some/file")

    monkeypatch.delenv("ORTPKG_TRACEBACK", raising=False)
    monkeypatch.setattr("ortpkg.cli.inspect.opened", refuse)
    done = ortpkg("inspect", DIGITS)
    assert (done.code, done.err) == (
        4,
        "error: the system refuses access to '/some/file': Permission denied\n",
    )
