"""The example plug-in of docs/plugins.md, installed as pip would: files and a dist-info."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import ortpkg

pytestmark = pytest.mark.usefixtures("warm_processes")

_EXAMPLE = Path(__file__).resolve().parents[1] / "data" / "example_plugin"
_ROOT = Path(__file__).resolve().parents[2]
_EP = "AcmeExecutionProvider"
_GROUP = "ortpkg.execution_providers"

Run = Callable[..., subprocess.CompletedProcess[str]]


def _install(
    site: Path, *, name: str = "acme-ep", entry_points: dict[str, str] | None = None
) -> None:
    """Puts the example on ``site``.

    Name and entry points are those of its pyproject.toml unless others are given.
    """
    project = tomllib.loads((_EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    shutil.copytree(_EXAMPLE / "acme_ep", site / "acme_ep", dirs_exist_ok=True)
    information = site / f"{name.replace('-', '_')}-{project['version']}.dist-info"
    information.mkdir(parents=True)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {project['version']}", ""]
    (information / "METADATA").write_text("\n".join(lines), encoding="utf-8")
    points = entry_points or project["entry-points"][_GROUP]
    listed = [f"[{_GROUP}]", *(f"{key} = {value}" for key, value in points.items()), ""]
    (information / "entry_points.txt").write_text("\n".join(listed), encoding="utf-8")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    return folder


@pytest.fixture
def python(site: Path, tmp_path: Path, answers: Path) -> Run:
    """Runs a program or module in a process that sees ``site`` and knows the backends."""
    shutil.copytree(answers, tmp_path / "cache")

    def run(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
        variables = {
            **os.environ,
            "PYTHONPATH": str(site),
            "ORTPKG_CACHE_DIR": str(tmp_path / "cache"),
            **environment,
        }
        command = [sys.executable, *map(str, words)]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, env=variables, cwd=_ROOT
        )

    return run


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package whose first variant is the plug-in's and whose second is the CPU's."""
    text = (
        '<ir_version: 8, opset_import: ["" : 17]> m (float[N] x) => (float[N] y) { z = Relu(x)\n y'
        " = Neg(z) }"
    )
    model = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(text), model)
    root = tmp_path / "p.ortpackage"
    acme = ortpkg.NewVariant(model=model, name="acme", ep=_EP, compatibility_info="acme-2")
    ortpkg.create(root, [acme, ortpkg.NewVariant(model=model, name="cpu", ep="cpu")])
    return root


@pytest.mark.requirement("K10")
def test_a_variant_of_the_plugin_is_selected_rated_and_run(
    site: Path, python: Run, package: Path
) -> None:
    _install(site)
    program = f"""
import json, sys, numpy as np, ortpkg
variant = ortpkg.ModelPackage({str(package)!r}).best_variant(ep="{_EP}")
session = variant.create_session()
x = np.array([-1, 2, -3], dtype=np.float32)
backend = variant.selection.best.ep_device.backend
(y,) = session.run(None, {{"x": x}})
print(json.dumps([variant.name, backend, session.get_providers(), y.tolist()]))
"""

    done = python("-c", program)

    assert done.returncode == 0, done.stderr
    name, backend, providers, y = json.loads(done.stdout)
    assert (name, backend, providers) == ("acme", "acme", [_EP, "CPUExecutionProvider"])
    np.testing.assert_array_equal(y, [0, -2, 0])


@pytest.mark.parametrize("words", [["devices", "--json"], ["devices", "--json", "--ep", _EP]])
def test_the_plugin_is_imported_only_where_it_is_named(
    site: Path, python: Run, words: list[str]
) -> None:
    _install(site)
    mark = site.parent / "imported"
    (site / "acme_ep" / "__init__.py").write_text(
        f"open({str(mark)!r}, 'w').close()\n", encoding="utf-8"
    )

    done = python("-m", "ortpkg", *words)

    is_named = _EP in words
    assert done.returncode == 0, done.stderr
    assert (_EP in {each["ep"] for each in json.loads(done.stdout)["ep_devices"]}) is is_named
    assert mark.exists() is is_named


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (
            "raise OSError('libacme.so: cannot open')",
            "it raised 'OSError: libacme.so: cannot open'",
        ),
        ("import time; time.sleep(600)", "no answer within 1 s"),
        ("import os; os._exit(9)", "it ended with status 9"),
        ("import sys; sys.exit(0)", "it ended with status"),
        ("import ctypes; ctypes.string_at(0)", "it was ended by SIGSEGV"),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="names POSIX signals")
def test_a_plugin_that_does_harm_at_import_is_left_out_with_the_reason(
    site: Path, python: Run, package: Path, code: str, reason: str
) -> None:
    _install(site)
    (site / "acme_ep" / "__init__.py").write_text(f"{code}\n", encoding="utf-8")
    program = (
        "import ortpkg\ns ="
        f" ortpkg.ModelPackage({str(package)!r}).select()\nprint(s.best.variant.name, *s.warnings)"
    )

    done = python("-c", program, ORTPKG_PROBE_TIMEOUT="1" if "sleep" in code else "300")

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("cpu ")
    assert (
        f"plug-in '{_EP}' ('acme_ep.factory:AcmeEpFactory' of 'acme-ep') cannot be loaded: {reason}"
        in done.stdout
    )


def test_of_two_plugins_of_one_name_the_first_by_name_is_used_and_the_other_told(
    site: Path, python: Run
) -> None:
    _install(site)
    _install(site, name="zz-acme", entry_points={_EP: "no_such_module:Factory"})

    done = python("-m", "ortpkg", "devices", "--json", "--ep", _EP)

    listed = json.loads(done.stdout)
    assert _EP in {each["ep"] for each in listed["ep_devices"]}
    assert [note for note in listed["notes"] if "'zz-acme' brings the same name and is not" in note]


def test_a_plugin_that_takes_a_built_in_name_is_not_used(site: Path, python: Run) -> None:
    _install(site, entry_points={"CPUExecutionProvider": "acme_ep.factory:AcmeEpFactory"})

    done = python(
        "-W",
        "always",
        "-c",
        "import ortpkg.runtime.providers.ep_registry as r; print(r.find_factory('cpu').backend)",
    )

    assert done.stdout == "embedded\n"
    assert "of 'acme-ep') is not used: the name is a built-in one" in done.stderr


def test_a_mistyped_plugin_gets_a_suggestion(site: Path, python: Run) -> None:
    _install(site)

    done = python("-m", "ortpkg", "devices", "--ep", "AcmeExecutionProvder")

    assert done.returncode == 2
    assert f"did you mean '{_EP}'?" in done.stderr


# --- plug-ins that do harm, wherever they are asked -----------------------------------------------

_HARM = {
    "import time; time.sleep(600)": "no answer within 1 s",
    "import os; os._exit(3)": "it ended with status 3",
    "import ctypes; ctypes.string_at(0)": "it was ended by SIGSEGV",
    "raise SystemExit(4)": "it ended with status 4",
    "raise ValueError('boom')": "it raised 'ValueError: boom'",
}


def _spoil(site: Path, method: str, code: str, *, module: str = "factory") -> None:
    """Puts ``code`` before everything else in a method of the plug-in."""
    path = site / "acme_ep" / f"{module}.py"
    text = path.read_text(encoding="utf-8")
    head, signature, body = text.partition(f"    def {method}(")
    end = body.index(":\n", body.index(") ->")) + 2
    path.write_text(f"{head}{signature}{body[:end]}        {code}\n{body[end:]}", encoding="utf-8")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("method", "doing"),
    [
        ("version", "cannot be loaded"),
        ("is_available", "failed to say what it offers"),
        ("get_supported_devices", "failed to say what it offers"),
        ("validate_compiled_model_compatibility_info", "failed to rate a compatibility string"),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="names POSIX signals")
def test_a_plugin_that_does_harm_when_it_is_asked_is_reported(
    site: Path, python: Run, package: Path, method: str, doing: str
) -> None:
    for number, (code, reason) in enumerate(_HARM.items()):
        _install(site / str(number))
        _spoil(site / str(number), method, code)

        done = python(
            *("-m", "ortpkg", "select", package, "--json"),
            ORTPKG_PROBE_TIMEOUT="1" if "sleep" in code else "300",
            PYTHONPATH=str(site / str(number)),
        )

        assert done.returncode == 0, done.stderr
        (selection,) = json.loads(done.stdout)["selections"]
        told = [
            *selection["warnings"],
            *(note for verdict in selection["verdicts"] for note in verdict["notes"]),
        ]
        assert [text for text in told if doing in text and reason in text], told
        assert selection["selected"]["variant"] == "cpu"
        codes = {
            verdict["code"] for verdict in selection["verdicts"] if verdict["variant"] == "acme"
        }
        is_kept = method.startswith("validate")  # of what cannot be rated the rating does not count
        assert ("LOWER_RANK" in codes) is is_kept


def test_doctor_survives_a_plugin_that_hangs(site: Path, python: Run) -> None:
    _install(site)
    _spoil(site, "get_supported_devices", "import time; time.sleep(600)")

    done = python("-m", "ortpkg", "doctor", "--json", ORTPKG_PROBE_TIMEOUT="5")

    assert "failed to say what it offers: no answer within 5 s" in done.stdout


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("module", "method", "code", "said"),
    [
        (
            "factory",
            "create",
            "raise ValueError('boom')",
            "failed to make an execution provider: 'ValueError: boom'",
        ),
        (
            "factory",
            "create",
            "raise SystemExit(4)",
            "failed to make an execution provider: 'SystemExit: 4'",
        ),
        ("factory", "create", "return 42", "must make an ExecutionProvider, not 'int'"),
        (
            "provider",
            "get_capability",
            "raise ValueError('boom')",
            "failed to say which nodes it runs",
        ),
        ("provider", "get_capability", "return None", "failed to say which nodes it runs"),
        (
            "provider",
            "get_capability",
            "raise SystemExit(4)",
            "failed to say which nodes it runs: 'SystemExit: 4'",
        ),
        (
            "provider",
            "compile",
            "raise ValueError('boom')",
            "failed to compile: 'ValueError: boom'",
        ),
        ("provider", "compile", "raise SystemExit(4)", "failed to compile: 'SystemExit: 4'"),
    ],
)
def test_a_plugin_that_fails_in_a_session_is_an_error_of_a_backend(
    site: Path, python: Run, package: Path, module: str, method: str, code: str, said: str
) -> None:
    _install(site)
    _spoil(site, method, code, module=module)
    np.save(site.parent / "x.npy", np.ones(3, np.float32))

    done = python("-m", "ortpkg", "run", package, "--input", f"x={site.parent / 'x.npy'}")

    assert done.returncode == 6, done.stderr
    assert said in done.stderr
    assert "bug in ortpkg" not in done.stderr


def test_a_plugin_that_ends_the_process_in_a_run_is_an_error_of_the_run(
    site: Path, python: Run, package: Path
) -> None:
    _install(site)
    path = site / "acme_ep" / "provider.py"
    path.write_text(
        path.read_text().replace(
            "    return [np.maximum", "    raise SystemExit(4)\n    return [np.maximum"
        )
    )
    np.save(site.parent / "x.npy", np.ones(3, np.float32))

    done = python("-m", "ortpkg", "run", package, "--input", f"x={site.parent / 'x.npy'}")

    assert done.returncode == 5, done.stderr


def test_what_a_plugin_prints_stays_out_of_standard_output(
    site: Path, python: Run, package: Path
) -> None:
    _install(site)
    (site / "acme_ep" / "__init__.py").write_text("print('NOISE')\n", encoding="utf-8")
    for method in ("get_capability", "compile"):
        _spoil(site, method, "print('NOISE')", module="provider")
    np.save(site.parent / "x.npy", np.ones(3, np.float32))

    chosen = python("-m", "ortpkg", "select", package, "--json")
    ran = python("-m", "ortpkg", "run", package, "--input", f"x={site.parent / 'x.npy'}", "--json")

    assert json.loads(chosen.stdout)["selections"][0]["selected"]["variant"] == "acme"
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["ran"][0]["variant"] == "acme"
    assert ran.stderr.count("NOISE") == 3


def test_a_second_process_asks_a_plugin_nothing_until_it_changes(
    site: Path, python: Run, package: Path
) -> None:
    _install(site)
    asked = site.parent / "asked"
    for method in ("version", "is_available", "validate_compiled_model_compatibility_info"):
        _spoil(site, method, f"open({str(asked)!r}, 'a').write('{method} ')")

    def select() -> list[str]:
        asked.write_text("")
        done = python("-m", "ortpkg", "select", package, "--json")
        assert done.returncode == 0, done.stderr
        return asked.read_text().split()

    first, second = select(), select()
    with (site / "acme_ep" / "factory.py").open("a") as file:
        file.write("# changed\n")
    changed = select()

    assert second == []
    assert (
        set(changed)
        == set(first)
        == {"version", "is_available", "validate_compiled_model_compatibility_info"}
    )


def test_a_plugin_that_was_not_available_is_asked_again(
    site: Path, python: Run, package: Path
) -> None:
    _install(site)
    library = site.parent / "library"
    _spoil(site, "is_available", f"import os; return os.path.exists({str(library)!r})")

    def codes() -> set[str]:
        (selection,) = json.loads(python("-m", "ortpkg", "select", package, "--json").stdout)[
            "selections"
        ]
        return {
            verdict["code"] for verdict in selection["verdicts"] if verdict["variant"] == "acme"
        }

    before = codes()
    library.touch()

    assert before == {"EP_NOT_AVAILABLE"}
    assert "SELECTED" in codes()
