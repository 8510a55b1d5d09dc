"""Makes the environment of a try: wheels of a folder on top of this Python's packages.

The wheels come first on the path, so that an ``onnxruntime`` of the machine does not hide their
``onnxruntime-gpu``. Nothing is downloaded.
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
    """Environment that commands run in.

    Attributes:
        python: path of the interpreter.
        python_path: value of ``PYTHONPATH``.
        details: number of wheels and how they were installed, for the report.
    """

    python: str
    python_path: str
    details: str


def make_environment(folder: Path, wheels: Path | None) -> Environment:
    """Make a virtual environment; if that fails, a folder of packages before this Python's.

    Args:
        folder: folder to make; it must not exist.
        wheels: folder with wheels; None for this Python's packages alone.
    """
    command = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
    creation = subprocess.run(
        command, check=False, timeout=_INSTALL_S, capture_output=True, text=True
    )
    if creation.returncode == 0:
        site = next(folder.glob("[Ll]ib/python*/site-packages"), folder / "Lib/site-packages")
        below = [_ROOT, *map(Path, _sites_of_this_python())]
        (site / "below.pth").write_text("".join(f"{path}\n" for path in below), encoding="utf-8")
        script = "Scripts/python.exe" if sys.platform == "win32" else "bin/python"
        python, python_path, kind = str(folder / script), "", ""
    else:
        site = folder / "packages"
        site.mkdir(parents=True, exist_ok=True)
        python, python_path, kind = sys.executable, str(site), ", in a folder: venv failed"
    wheel_files = [] if wheels is None else newest_of_each(sorted(wheels.glob("*.whl")))
    note = _install(wheel_files, site) if wheel_files else "nothing to install"
    return Environment(python, python_path, f"{len(wheel_files)} wheels, {note}{kind}")


def newest_of_each(wheels: Sequence[Path]) -> list[Path]:
    """Return the last wheel, by name, of each distribution; all onnxruntime builds are one."""
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
    """Install wheels with pip, or unpack them if pip fails; return which of the two."""
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
