"""Code compiled for three targets is chosen and run where no more is installed than ortpkg needs.

``make base`` has pip make that environment. Elsewhere it is a folder of links to ortpkg and the
distributions that it requires, and an interpreter that sees no others.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import Distribution, distribution
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement

import ortpkg
from ortpkg.compiler.machine_code.cpu_targets import host_target
from tests.ep_context.compiling import compiled

_ROOT = Path(ortpkg.__file__).resolve().parents[1]
_TARGETS = ("linux-x86_64_v4", "linux-x86_64_v3", "linux-aarch64")
_COMPILERS_AND_BACKENDS = ("llvmlite", "onnxruntime", "openvino", "torch")
_HOST = host_target()

pytestmark = pytest.mark.skipif(
    _HOST is None or _HOST.name not in _TARGETS, reason="none of the three is for this CPU"
)


def _required(name: str, found: dict[str, Distribution]) -> dict[str, Distribution]:
    """The distribution and all that it requires without extras, added to what was found."""
    if name in found:
        return found
    found[name] = distribution(name)
    for text in found[name].requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            _required(requirement.name, found)
    return found


def _linked(folder: Path) -> Path:
    """The folder, with links to the files of all that ortpkg requires, and to ortpkg."""
    folder.mkdir()
    (folder / "ortpkg").symlink_to(_ROOT / "ortpkg")
    for each in _required("ortpkg", {}).values():
        for name in {path.parts[0] for path in each.files or ()} - {"..", "__pycache__"}:
            place = Path(str(each.locate_file(name)))
            if not (folder / name).exists() and place.suffix != ".pth":
                (folder / name).symlink_to(place)
    return folder


class _BaseEnvironment:
    """An interpreter with ortpkg and what it requires."""

    def __init__(self, folder: Path) -> None:
        installed = os.environ.get("ORTPKG_TEST_BASE_PYTHON")
        self._variables = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("ORTPKG_", "PYTHON"))
        }
        if installed is None:
            self._python = [sys.executable, "-S"]  # no site-packages: what is linked, and no more
            self._variables["PYTHONPATH"] = str(_linked(folder / "site"))
        else:
            self._python = [installed]
        for kind in ("CACHE", "STATE", "CONFIG"):
            self._variables[f"ORTPKG_{kind}_DIR"] = str(folder / kind.lower())

    def python(self, *arguments: str) -> str:
        """What Python prints; an exit code other than 0 is an error."""
        done = subprocess.run(
            [*self._python, *arguments], env=self._variables, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def ortpkg(self, *arguments: str) -> str:
        """What a command prints."""
        return self.python("-m", "ortpkg", *arguments)

    def installed(self) -> Mapping[str, bool]:
        """Which compilers and backends of others can be found there."""
        names = list(_COMPILERS_AND_BACKENDS)
        program = (
            "import importlib.util, json;"
            f" print(json.dumps({{n: importlib.util.find_spec(n) is not None for n in {names}}}))"
        )
        found: Mapping[str, bool] = json.loads(self.python("-c", program))
        return found


@pytest.mark.slow
def test_code_for_three_targets_is_chosen_and_run_where_no_compiler_is(
    few_digits: Path, tmp_path: Path
) -> None:
    assert _HOST is not None
    made = compiled(few_digits, ep="llvm", targets=_TARGETS, variants=("cpu-fp32",))
    assert len(made) == len(_TARGETS)
    base = _BaseEnvironment(tmp_path)
    assert not any(base.installed().values()), base.installed()

    best = f"cpu-fp32-{_HOST.short_name}"
    explained = base.ortpkg("select", str(few_digits), "--explain", "--trust")
    assert f"SELECTED  '{best}'" in explained
    assert "COMPILED_MODEL_UNSUPPORTED  'cpu-fp32-aarch64'" in explained

    image = np.random.default_rng(0).random((3, 1, 8, 8), np.float32)
    np.save(tmp_path / "image.npy", image)
    outputs = tmp_path / "outputs.npz"
    # trusted, since machine code is a native context and was made by somebody else
    report = base.ortpkg("run", str(few_digits), "--trust", "--json", "--output", str(outputs),
                         "--input", f"image={tmp_path / 'image.npy'}")  # fmt: skip
    (ran,) = json.loads(report)["ran"]
    assert (ran["variant"], ran["backend"]) == (best, "llvm")
    assert ran["placement"]["offload_percent"] == 100
    with np.load(outputs) as made_there:
        logits = made_there["logits"]
    plain = ortpkg.ModelPackage(few_digits).variant("cpu-fp32").create_session()
    np.testing.assert_allclose(logits, plain.run(None, {"image": image})[0], rtol=1e-4, atol=1e-4)
