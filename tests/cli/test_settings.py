"""Settings: command line, environment, project's file, user's file, default, in this order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ortpkg.api.model_variant import ModelVariant
from ortpkg.cli import settings_command
from ortpkg.cli.app import run
from ortpkg.cli.settings import Settings, read_settings, setting_variable
from ortpkg.cli.settings_command import _DEFAULTS, _OTHER_VARIABLES, _SHOWN
from ortpkg.distribution.project.configuration_files import user_config_file
from ortpkg.foundations.errors import UsageError
from ortpkg.runtime.session.options import SessionOptions
from tests.cli.conftest import DIGITS, RunCommand


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: a project with no settings, of a user with none."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("ORTPKG_CONFIG_DIR", str(tmp_path / "own"))
    (tmp_path / "own").mkdir()
    for name in ("POLICY", "BACKEND", "TRUST", "THREADS"):
        monkeypatch.delenv(f"ORTPKG_{name}", raising=False)
    return folder


def own(text: str) -> None:
    user_config_file().write_text(text, encoding="utf-8")


def test_nothing_is_set_where_nobody_says_anything() -> None:
    found = read_settings()
    assert (found.policy, found.backend, found.trust, found.threads) == (None,) * 4
    assert found.sources == {}


def test_each_source_counts_more_than_the_next(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own('policy = "prefer-cpu"\nbackend = "embedded"\nthreads = 1\n')
    (project / "ortpkg.toml").write_text('policy = "prefer-gpu"\nthreads = 2\n', encoding="utf-8")
    monkeypatch.setenv("ORTPKG_POLICY", "prefer-npu")

    found = read_settings()

    assert (found.policy, found.threads, found.backend) == ("prefer-npu", 2, "embedded")
    assert dict(found.sources) == {
        "policy": "ORTPKG_POLICY",
        "threads": str(project / "ortpkg.toml"),
        "backend": str(user_config_file()),
    }


def test_the_nearest_project_file_counts_and_its_own_name_before_pyproject(project: Path) -> None:
    (project / "pyproject.toml").write_text(
        '[tool.ortpkg]\npolicy = "prefer-npu"\n', encoding="utf-8"
    )
    inner = project / "a" / "b"
    inner.mkdir(parents=True)
    assert read_settings(inner).policy == "prefer-npu"
    # says nothing of ours
    (project / "a" / "pyproject.toml").write_text('[project]\nname = "x"\n', encoding="utf-8")
    assert read_settings(inner).policy == "prefer-npu"
    (project / "ortpkg.toml").write_text('policy = "prefer-gpu"\n', encoding="utf-8")
    assert read_settings(inner).policy == "prefer-gpu"
    (inner / "ortpkg.toml").write_text("threads = 3\n", encoding="utf-8")
    assert (read_settings(inner).policy, read_settings(inner).threads) == (None, 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'polcy = "x"',
            (
                r"there is no setting 'polcy' \(did you mean 'policy'\?\); policy, backend, trust,"
                r" threads, ep_libraries$"
            ),
        ),
        ("policy = 3", 'policy is .*3.*; a text, such as "prefer-npu" was expected'),
        ("threads = 0", "threads is .*0.*; a number from 1 to 4096 was expected"),
        ("threads = true", "threads is .*True.*; a number"),
        ("trust = 1", "trust is .*1.*; true or false was expected"),
        ("[policy]", "policy is .*; a text"),
        ("policy = ", "is no TOML: .*Invalid value"),
        ("\xff", "there is no setting|is no TOML"),
        ("a = " + "[" * 5000, "is no TOML"),
        ("#" * (1 << 20) + "##", "larger than"),
    ],
)
def test_what_is_wrong_in_a_file_is_told_with_the_file(text: str, message: str) -> None:
    own(text)
    with pytest.raises(UsageError, match=message) as caught:
        read_settings()
    assert str(user_config_file()) in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "[tool.ortpkg]\nthreads = 3",
        "[ tool . 'ortpkg' ]\nthreads = 3",
        '"tool"."ortpkg".threads = 3',
        "[tool]\nother = 1\none = 1\nortpkg.threads = 3",
        "tool = { other = 1, ortpkg = { threads = 3 } }",
    ],
)
def test_a_table_of_pyproject_counts_however_it_is_written(project: Path, text: str) -> None:
    (project / "pyproject.toml").write_text(text, encoding="utf-8")
    assert read_settings().threads == 3


def test_a_broken_file_of_another_tool_is_not_ours_to_judge(project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.other\n", encoding="utf-8")
    assert read_settings().sources == {}
    (project / "pyproject.toml").write_text("[tool.ortpkg\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"pyproject\.toml' is no TOML"):
        read_settings()


@pytest.mark.parametrize("file", ["ortpkg.toml", "pyproject.toml"])
def test_a_project_grants_no_trust(project: Path, file: str) -> None:
    head = "[tool.ortpkg]\n" if file == "pyproject.toml" else ""
    (project / file).write_text(f"{head}trust = true\n", encoding="utf-8")
    with pytest.raises(
        UsageError, match="is not for a project's file, which may come from anybody: write it to"
    ):
        read_settings()


@pytest.mark.parametrize("name", ["ortpkg.toml", "pyproject.toml"])
def test_a_file_inside_a_package_says_nothing(project: Path, name: str) -> None:
    package = project / "p.ortpackage"
    (package / "models").mkdir(parents=True)
    (package / "manifest.json").write_text('{"model_name": "p"}', encoding="utf-8")
    (package / name).write_text(
        '[tool.ortpkg]\npolicy = "prefer-cpu"\ntrust = true\n', encoding="utf-8"
    )
    (package / "models" / name).write_text('backend = "evil"\n', encoding="utf-8")
    assert read_settings(package).sources == {}
    assert read_settings(package / "models").sources == {}
    (project / "ortpkg.toml").write_text('policy = "prefer-npu"\n', encoding="utf-8")
    assert read_settings(package / "models").policy == "prefer-npu"


@pytest.mark.parametrize(
    ("text", "value"), [("1", True), ("TRUE", True), ("on", True), ("0", False), ("no", False)]
)
def test_trust_comes_from_the_environment(
    text: str, value: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORTPKG_TRUST", text)
    assert read_settings().trust is value


@pytest.mark.parametrize(
    ("name", "text"), [("TRUST", "maybe"), ("THREADS", "many"), ("THREADS", "-1")]
)
def test_a_wrong_value_in_the_environment_is_told(
    name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"ORTPKG_{name}", text)
    with pytest.raises(UsageError, match=f"ORTPKG_{name}: {name.lower()} is '{text}'"):
        read_settings()


def test_commands_go_by_the_settings_and_the_command_line_goes_before(
    ortpkg: RunCommand, few_digits: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def policy(*words: str) -> object:
        return ortpkg("select", DIGITS, "--json", *words).json["selections"][0]["policy"]

    assert policy() == "default"
    own('policy = "prefer-cpu"\n')
    assert policy() == "prefer-cpu"
    (project / "ortpkg.toml").write_text(
        'policy = "prefer-gpu"\nbackend = "embedded"\n', encoding="utf-8"
    )
    assert policy() == "prefer-gpu"
    assert ortpkg("select", DIGITS, "--json").json["selections"][0]["backend"] == "embedded"
    monkeypatch.setenv("ORTPKG_POLICY", "prefer-npu")
    assert policy() == "prefer-npu"
    assert policy("--policy", "max-efficiency") == "max-efficiency"
    assert ortpkg("run", few_digits, "--json").json["ran"][0]["backend"] == "embedded"


@pytest.mark.parametrize("words", [["--trust"], ["--no-trust"], []])
def test_trust_of_ones_own_file_can_be_taken_back(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own("trust = true\n")
    asked: list[bool] = []

    def stop(*_arguments: object, trust: bool, **_options: object) -> None:
        asked.append(trust)
        raise UsageError("enough")

    monkeypatch.setattr("ortpkg.cli.run.ModelPackage.of", stop)
    assert run(["run", str(DIGITS), *words]) == 2
    assert asked == [words != ["--no-trust"]]
    said = capsys.readouterr().err
    assert (f"trusted, as {user_config_file()} says" in said) == (not words)


def test_a_wrong_file_is_one_clear_error(ortpkg: RunCommand) -> None:
    own('polcy = "x"\n')
    done = ortpkg("select", DIGITS, "--json")
    assert (done.code, done.json["error"]["type"]) == (2, "UsageError")
    assert "there is no setting 'polcy'" in done.err
    assert ortpkg("inspect", DIGITS).code == 0


def test_threads_of_the_settings_reach_run(
    ortpkg: RunCommand, few_digits: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: list[SessionOptions] = []
    whole = ModelVariant._session_options

    def session_options(
        variant: ModelVariant, own: SessionOptions | None, threads: int | None
    ) -> SessionOptions:
        options.append(whole(variant, own, threads))
        return options[-1]

    monkeypatch.setattr(ModelVariant, "_session_options", session_options)
    (project / "ortpkg.toml").write_text("threads = 3\n", encoding="utf-8")
    assert ortpkg("run", few_digits, "--backend", "embedded").code == 0
    assert ortpkg("run", few_digits, "--backend", "embedded", "--threads", "1").code == 0
    assert [each.intra_op_num_threads for each in options] == [3, 1]


@pytest.mark.parametrize("file", ["ortpkg.toml", ""])
def test_a_policy_that_nobody_knows_is_told_with_where_it_stands(
    ortpkg: RunCommand, project: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    if file:
        (project / file).write_text('policy = "prefr-npu"\n', encoding="utf-8")
    else:
        monkeypatch.setenv("ORTPKG_POLICY", "prefr-npu")
    done = ortpkg("select", DIGITS)
    where = str(project / file) if file else "ORTPKG_POLICY"
    assert (done.code, f"{where}: there is no policy 'prefr-npu' (did you mean" in done.err) == (
        2,
        True,
    )
    assert ortpkg("select", DIGITS, "--policy", "prefer-cpu").code == 0


@pytest.mark.parametrize("command", ["select", "run", "settings"])
@pytest.mark.parametrize("file", ["ortpkg.toml", ""])
def test_a_backend_that_nobody_knows_is_told_with_where_it_stands(
    ortpkg: RunCommand, project: Path, monkeypatch: pytest.MonkeyPatch, file: str, command: str
) -> None:
    if file:
        (project / file).write_text('backend = "opnvino"\n', encoding="utf-8")
    else:
        monkeypatch.setenv("ORTPKG_BACKEND", "opnvino")
    done = ortpkg(command, *([] if command == "settings" else [DIGITS]))
    where = str(project / file) if file else "ORTPKG_BACKEND"
    assert done.code == 2
    assert (
        f"error: {where}: there is no backend 'opnvino' (did you mean 'openvino'?); known are: auto"
        in done.err
    )


def test_a_backend_that_the_command_line_names_is_not_the_settings_fault(
    ortpkg: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORTPKG_BACKEND", "embedded")
    assert (
        "error: there is no backend 'opnvino'" in ortpkg("select", DIGITS, "--backend=opnvino").err
    )


def test_settings_shows_each_value_and_where_it_comes_from(
    ortpkg: RunCommand, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own("threads = 2\ntrust = true\n")
    (project / "ortpkg.toml").write_text('policy = "prefer_NPU"\n', encoding="utf-8")
    monkeypatch.setenv("ORTPKG_BACKEND", "embedded")
    monkeypatch.setenv("ORTPKG_PROVIDERS", "cpu")

    told = ortpkg("settings", "--json").json

    assert {each["name"]: (each["value"], each["source"]) for each in told["settings"]} == {
        "policy": ("prefer_NPU", str(project / "ortpkg.toml")),
        "backend": ("embedded", "ORTPKG_BACKEND"),
        "trust": (True, str(user_config_file())),
        "threads": (2, str(user_config_file())),
        "ep_libraries": (None, None),
    }
    assert told["settings"][1]["commands"] == ["select", "run", "cache"]
    assert told["places"]["project_file"] == str(project / "ortpkg.toml")
    assert told["places"]["user_file"] == str(user_config_file())
    assert told["variables"]["ORTPKG_PROVIDERS"] == "cpu"
    lines = [line.split() for line in ortpkg("settings").out.splitlines()]
    assert [
        "backend",
        "embedded",
        "ORTPKG_BACKEND",
        "--backend",
        "of",
        "select,",
        "run,",
        "cache",
    ] in lines


def test_libraries_of_eps_are_a_personal_setting(
    ortpkg: RunCommand, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acme, other = project / "libacme.so", project / "other.so"
    acme.touch()
    other.touch()
    own(f"ep_libraries = ['{acme}', 'Acme={acme}']\n")
    shown = {setting["name"]: setting for setting in ortpkg("settings", "--json").json["settings"]}
    assert shown["ep_libraries"]["value"] == [str(acme), f"Acme={acme}"]
    assert shown["ep_libraries"]["source"] == str(user_config_file())
    monkeypatch.setenv("ORTPKG_EP_LIBRARIES", str(other))
    shown = {setting["name"]: setting for setting in ortpkg("settings", "--json").json["settings"]}
    assert shown["ep_libraries"]["value"] == [str(other)]
    assert "other.so" in ortpkg("settings").out
    (project / "ortpkg.toml").write_text('ep_libraries = ["evil.so"]\n', encoding="utf-8")
    assert "ep_libraries is not for a project's file" in ortpkg("settings").err
    (project / "ortpkg.toml").unlink()
    monkeypatch.delenv("ORTPKG_EP_LIBRARIES")
    own("ep_libraries = [7]\n")
    assert "a list of paths, or of NAME=PATH was expected" in ortpkg("settings").err


#: Variable, a value that is none, what is said of it.
WRONG_VARIABLES = [
    ("ORTPKG_POLICY", "fast", "ORTPKG_POLICY: there is no policy 'fast'"),
    ("ORTPKG_PROVIDERS", ",", "ORTPKG_PROVIDERS is ','; it must be names"),
    ("ORTPKG_PROVIDERS", "cpu,cuad", "ORTPKG_PROVIDERS: there is no execution provider 'cuad'"),
    (
        "ORTPKG_EMULATED_DEVICES",
        "qnnn",
        "ORTPKG_EMULATED_DEVICES: there is no execution provider 'qnnn'",
    ),
    ("ORTPKG_PROBE_TIMEOUT", "soon", "ORTPKG_PROBE_TIMEOUT is no duration: 'soon'; write e.g. 5ms"),
    ("ORTPKG_PROBE_AGAIN", "perhaps", "ORTPKG_PROBE_AGAIN is 'perhaps'; 1 or 0 was expected"),
    ("ORTPKG_TRACEBACK", "perhaps", "ORTPKG_TRACEBACK is 'perhaps'; 1 or 0 was expected"),
    (
        "ORTPKG_MACHINE_CREDENTIALS",
        "perhaps",
        "ORTPKG_MACHINE_CREDENTIALS is 'perhaps'; 1 or 0 was expected",
    ),
    (
        "ORTPKG_PYTHON",
        "/no/python",
        "ORTPKG_PYTHON is '/no/python'; a Python interpreter was expected",
    ),
    ("ORTPKG_CACHE_DIR", __file__, "ORTPKG_CACHE_DIR is"),
    ("ORTPKG_STATE_DIR", __file__, "ORTPKG_STATE_DIR is"),
    ("ORTPKG_STORE", __file__, "ORTPKG_STORE is"),
    ("ORTPKG_TRUST_POLICY", "/no/policy", "ORTPKG_TRUST_POLICY is '/no/policy'"),
    ("ORTPKG_CONFIG_DIR", __file__, "ORTPKG_CONFIG_DIR is"),
    ("ORTPKG_TRUST", "perhaps", "ORTPKG_TRUST: trust is 'perhaps'; true or false was expected"),
    ("ORTPKG_THREADS", "all", "ORTPKG_THREADS: threads is 'all'"),
    ("ORTPKG_BACKEND", "onnx", "ORTPKG_BACKEND: there is no backend 'onnx'"),
    (
        "ORTPKG_EP_LIBRARIES",
        "Acme=/no/such.so",
        "ORTPKG_EP_LIBRARIES names '/no/such.so', which is not there",
    ),
]


@pytest.mark.parametrize(("variable", "value", "message"), WRONG_VARIABLES)
def test_settings_tells_what_is_wrong_with_the_variable(
    ortpkg: RunCommand, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    monkeypatch.setenv(variable, value)
    done = ortpkg("settings")
    assert (done.code, message in done.err) == (2, True)


def test_every_documented_variable_has_a_wrong_value_above() -> None:
    assert {each[0] for each in WRONG_VARIABLES} == {
        *_OTHER_VARIABLES,
        *map(setting_variable, _SHOWN),
    }


def test_settings_warns_of_a_variable_that_says_nothing(
    ortpkg: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORTPKG_POLCY", "prefer-npu")
    done = ortpkg("settings")
    assert done.code == 0
    assert "ORTPKG_POLCY, which says nothing to ortpkg (did you mean 'ORTPKG_POLICY'?)" in done.err


def test_every_setting_and_every_variable_of_the_code_is_known_to_settings() -> None:
    assert set(_DEFAULTS) == set(_SHOWN) == set(Settings._fields) - {"sources"}
    named = (
        {setting_variable(name) for name in _SHOWN}
        | set(_OTHER_VARIABLES)
        | {"_ORTPKG_COMPLETE", "ORTPKG_STRICT_SHAPES"}
    )
    folder = Path(settings_command.__file__).parents[1]
    texts = [path.read_text(encoding="utf-8") for path in folder.rglob("*.py")]
    assert {name for text in texts for name in re.findall(r'"(_?ORTPKG_[A-Z_]+)"', text)} <= named
