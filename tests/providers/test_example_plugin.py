"""The example plug-in of docs/plugins.md, installed as pip would install it: files and a dist-info on sys.path."""

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

_EXAMPLE = Path(__file__).resolve().parents[1] / "data" / "example_plugin"
_ROOT = Path(__file__).resolve().parents[2]
_EP = "AcmeExecutionProvider"
_GROUP = "ortpkg.execution_providers"

Run = Callable[..., subprocess.CompletedProcess[str]]


def _install(site: Path, *, name: str = "acme-ep", entry_points: dict[str, str] | None = None) -> None:
    """Puts the example on ``site``; name and entry points are those of its pyproject.toml unless others are given."""
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
def python(site: Path, tmp_path: Path) -> Run:
    """Runs a program, or a module with arguments, in a process that sees ``site``."""

    def run(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
        variables = {**os.environ, "PYTHONPATH": str(site), "ORTPKG_CACHE_DIR": str(tmp_path / "cache"), **environment}
        command = [sys.executable, *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=variables, cwd=_ROOT)

    return run


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package whose first variant is the plug-in's and whose second is the CPU's."""
    text = '<ir_version: 8, opset_import: ["" : 17]> m (float[N] x) => (float[N] y) { z = Relu(x)\n y = Neg(z) }'
    model = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(text), model)
    root = tmp_path / "p.ortpackage"
    acme = ortpkg.NewVariant(model=model, name="acme", ep=_EP, compatibility_info="acme-2")
    ortpkg.create(root, [acme, ortpkg.NewVariant(model=model, name="cpu", ep="cpu")])
    return root


@pytest.mark.requirement("K10")
def test_a_variant_of_the_plugin_is_selected_rated_and_run(site: Path, python: Run, package: Path) -> None:
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
def test_the_plugin_is_imported_only_where_it_is_named(site: Path, python: Run, words: list[str]) -> None:
    _install(site)
    (site / "acme_ep" / "__init__.py").write_text("import sys; sys.stderr.write('ACME WAS IMPORTED\\n')\n")

    done = python("-m", "ortpkg", *words)

    is_named = _EP in words
    assert done.returncode == 0, done.stderr
    assert (_EP in {each["ep"] for each in json.loads(done.stdout)["ep_devices"]}) is is_named
    assert ("ACME WAS IMPORTED" in done.stderr) is is_named


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise OSError('libacme.so: cannot open')", "it raised 'OSError: libacme.so: cannot open'"),
        ("import time; time.sleep(600)", "no answer within 3 s"),
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
        f"import ortpkg\ns = ortpkg.ModelPackage({str(package)!r}).select()\nprint(s.best.variant.name, *s.warnings)"
    )

    done = python("-c", program, ORTPKG_PROBE_TIMEOUT="3")

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("cpu ")
    assert f"plug-in '{_EP}' ('acme_ep.factory:AcmeEpFactory' of 'acme-ep') cannot be loaded: {reason}" in done.stdout


def test_of_two_plugins_of_one_name_the_first_by_name_is_used_and_the_other_told(site: Path, python: Run) -> None:
    _install(site)
    _install(site, name="zz-acme", entry_points={_EP: "no_such_module:Factory"})

    done = python("-m", "ortpkg", "devices", "--json", "--ep", _EP)

    listed = json.loads(done.stdout)
    assert _EP in {each["ep"] for each in listed["ep_devices"]}
    assert [note for note in listed["notes"] if "'zz-acme' brings the same name and is not" in note]


def test_a_plugin_that_takes_a_built_in_name_is_not_used(site: Path, python: Run) -> None:
    _install(site, entry_points={"CPUExecutionProvider": "acme_ep.factory:AcmeEpFactory"})

    done = python(
        "-W", "always", "-c", "import ortpkg.providers.ep_registry as r; print(r.find_factory('cpu').backend)"
    )

    assert done.stdout == "embedded\n"
    assert "of 'acme-ep') is not used: the name is a built-in one" in done.stderr


def test_a_mistyped_plugin_gets_a_suggestion(site: Path, python: Run) -> None:
    _install(site)

    done = python("-m", "ortpkg", "devices", "--ep", "AcmeExecutionProvder")

    assert done.returncode == 2
    assert f"did you mean '{_EP}'?" in done.stderr
