"""Peak memory of pack, unpack, verify and convert, which must not grow with file size.

    python -m benchmarks.memory_of_commands [--mib 64 1024] [--scratch FOLDER]

Every command runs in a process of its own, whose peak resident set the operating system tells (not
on Windows). A file that is mapped counts while it is looked at, whoever could have the memory back.
Needs about three times the larger size on the disk; what it writes is deleted.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_PIECE = 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description="Peak memory of commands as packages grow.")
    parser.add_argument(
        "--mib", nargs="+", type=int, default=[64, 1024], help="sizes of the one large file"
    )
    parser.add_argument("--scratch", type=Path, default=None)
    arguments = parser.parse_args()
    peaks = {mib: _measure(mib, arguments.scratch) for mib in sorted(arguments.mib)}
    print("command   " + "".join(f"{mib:>12} MiB" for mib in peaks) + "   growth")
    first, last = min(peaks), max(peaks)
    for command in peaks[first]:
        row = "".join(f"{peaks[mib][command]:>9.0f} MiB  " for mib in peaks)
        print(f"{command:10}  {row}   {peaks[last][command] / peaks[first][command]:.2f} x")


def _measure(mib: int, scratch: Path | None) -> dict[str, float]:
    """Command → peak resident set in MiB, on a package with one file of ``mib`` MiB."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        here = Path(folder)
        package, archive = _write_package(here / "large.ortpackage", mib), here / "large.zip"
        peaks = {"verify": _peak("record-and-verify", package)}
        peaks["pack"] = _peak("pack", package, archive)
        peaks["unpack"] = _peak("unpack", archive, here / "unpacked.ortpackage")
        shutil.rmtree(here / "unpacked.ortpackage")
        archive.unlink()
        peaks["convert"] = _peak("convert", package, here / "converted.ortpackage")
        return peaks


def _write_package(root: Path, mib: int) -> Path:
    """A package with a GenAI folder as its variant: its weights need no model."""
    variant = root / "models" / "model" / "cpu"
    variant.mkdir(parents=True)
    (variant / "genai_config.json").write_text("{}", encoding="utf-8")
    piece = os.urandom(_PIECE)  # not sparse: no file system is to take a short cut
    with (variant / "weights.bin").open("wb") as file:
        for _ in range(mib):
            file.write(piece)
    manifest = {"model_name": "large", "component_models": ["model"]}
    body = {"model_variants": {"cpu": {"constraints": {"ep": "CPUExecutionProvider"}}}}
    (root / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    (variant.parent / "metadata.json").write_text(json.dumps(body), encoding="utf-8")
    return root


_CHILD = """
import sys
from pathlib import Path
import ortpkg
command, source, *target = sys.argv[1:]
if command == "record-and-verify":
    ortpkg.record_digests(source)
    report = ortpkg.verify(source)
    assert report.is_complete and not report.differences, report
elif command == "convert":
    ortpkg.convert(source, "component", output=target[0])
else:
    getattr(ortpkg, command)(source, target[0])
import resource
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def _peak(command: str, *paths: Path) -> float:
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, command, *map(str, paths)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"{command} failed: {done.stderr.strip()}")
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, KiB elsewhere
    return int(done.stdout.split()[-1]) * unit / 2**20


if __name__ == "__main__":
    main()
