"""The environment of a try: wheels of a folder over the packages of the Python that runs this.

What the folder has goes before what that Python has, so that its ``onnxruntime-gpu`` is not hidden
by an ``onnxruntime`` of the machine. Nothing is asked of a network.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_ROOT = Path(__file__).resolve().parents[2]
_INSTALL_S = 180.0
#: Of these only one may be installed: they bring the same module.
_RUNTIME = re.compile(r"onnxruntime(_gpu|_directml|_openvino)?-\d")


class Environment(NamedTuple):
    """Where commands run.

    Attributes:
        python: the interpreter.
        python_path: what ``PYTHONPATH`` is to be.
        details: what was installed how.
    """

    python: str
    python_path: str
    details: str


def make_environment(folder: Path, wheels: Path | None) -> Environment:
    """Make a virtual environment, or where that fails a folder that goes before this Python's.

    Args:
        folder: where; it must not be there.
        wheels: a folder with wheels; None for the packages of this Python alone.
    """
    command = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
    made = subprocess.run(command, check=False, timeout=_INSTALL_S, capture_output=True, text=True)
    if made.returncode == 0:
        site = next(folder.glob("[Ll]ib/python*/site-packages"), folder / "Lib/site-packages")
        below = [_ROOT, *map(Path, _sites_of_this_python())]
        (site / "below.pth").write_text("".join(f"{path}\n" for path in below), encoding="utf-8")
        script = "Scripts/python.exe" if sys.platform == "win32" else "bin/python"
        python, python_path, kind = str(folder / script), "", ""
    else:
        site = folder / "packages"
        site.mkdir(parents=True, exist_ok=True)
        python, python_path, kind = sys.executable, str(site), ", in a folder: venv failed"
    found = [] if wheels is None else newest_of_each(sorted(wheels.glob("*.whl")))
    note = _install(found, site) if found else "nothing to install"
    return Environment(python, python_path, f"{len(found)} wheels, {note}{kind}")


def newest_of_each(wheels: Sequence[Path]) -> list[Path]:
    """Return one wheel of each distribution, the last by name; one that brings ``onnxruntime``."""
    chosen: dict[str, Path] = {}
    for wheel in wheels:
        name = "onnxruntime" if _RUNTIME.match(wheel.name) else wheel.name.partition("-")[0].lower()
        chosen[name] = wheel
    return list(chosen.values())


def _sites_of_this_python() -> list[str]:
    places = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    others = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    return list(dict.fromkeys([*places, *others]))


def _install(wheels: Sequence[Path], site: Path) -> str:
    """Install wheels by pip, or, where there is none that works, unpack them."""
    options = ("--no-index", "--no-deps", "--no-compile", "--no-cache-dir", "--quiet")
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", *options]
    done = subprocess.run(
        [*command, "--target", str(site), *map(str, wheels)],
        check=False,
        timeout=_INSTALL_S,
        capture_output=True,
        text=True,
    )
    if done.returncode == 0:
        return "installed by pip"
    for wheel in wheels:
        unpack_wheel(wheel, site)
    reason = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
    return f"unpacked, since pip said: {reason}"


def unpack_wheel(wheel: Path, site: Path) -> None:
    """Unpack a wheel into a folder of modules, without its scripts."""
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            parts = Path(entry.filename).parts
            if parts and parts[0].endswith(".data"):
                if len(parts) < 3 or parts[1] not in {"purelib", "platlib"}:
                    continue
                parts = parts[2:]
            if entry.is_dir() or ".." in parts or Path(entry.filename).is_absolute():
                continue
            target = site.joinpath(*parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(entry) as source, target.open("wb") as file:
                while block := source.read(1 << 22):
                    file.write(block)
