"""Which onnxruntime releases the interop tests run against, and where their shared libraries are.

The installed release needs nothing. The others come as wheels, unpacked side by side under
``.interop-wheels/``:

    python -m tests.interop.wheels        downloads and unpacks what is missing, or fails and says
    why
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
WHEELS = REPOSITORY / ".interop-wheels"
OTHER_RELEASES = ("1.26.0", "1.27.0", "1.28.0", "1.29.0", "1.30.0", "1.31.0", "1.32.0")
"""One of each release line that can open a package, besides the installed release."""

ALL_RELEASES_VARIABLE = "ORTPKG_INTEROP_ALL_RELEASES"
"""Set to 1 by ``make interop``: the tests then run against ``OTHER_RELEASES`` too."""


class WheelUnavailableError(Exception):
    """A release that the tests were asked to use cannot be had here."""


def releases_under_test() -> tuple[str, ...]:
    """The installed release, after the others where these were asked for."""
    others = OTHER_RELEASES if os.environ.get(ALL_RELEASES_VARIABLE) == "1" else ()
    return (*others, installed_release())


def newest_of_lines(lines: range) -> tuple[str, ...]:
    """The release under test of each line, the installed one where it is of the line."""
    return tuple(
        {minor_of(each): each for each in releases_under_test() if minor_of(each) in lines}.values()
    )


def installed_release() -> str:
    """The version of the onnxruntime that is installed beside the tests."""
    return importlib.metadata.version("onnxruntime")


def minor_of(release: str) -> int:
    """The release line: 31 for 1.31.1."""
    return int(release.split(".")[1])


def opens_components(release: str) -> bool:
    """Whether the release reads the component generation.

    The older ones read the metadata generation.
    """
    return minor_of(release) >= 28


def library_of(release: str) -> Path:
    """The shared library of ``release``, installed or unpacked.

    Raises:
        WheelUnavailableError: it is neither.
    """
    root = _installed_root() if release == installed_release() else WHEELS / release
    capi = root / "onnxruntime" / "capi"
    patterns = ("libonnxruntime.so.*", "libonnxruntime.*.dylib", "onnxruntime.dll")
    found = sorted(path for pattern in patterns for path in capi.glob(pattern))
    if len(found) != 1:
        listing = ", ".join(path.name for path in found) or "none"
        message = (
            f"onnxruntime {release}: one shared library was expected in {capi}, found {listing};"
            " run make interop"
        )
        raise WheelUnavailableError(message)
    return found[0]


def fetch(release: str) -> Path:
    """Downloads the wheel of ``release`` for this interpreter and unpacks it, unless that is done.

    Raises:
        WheelUnavailableError: no such wheel, no package index, or a wheel without a library.
    """
    target = WHEELS / release
    if not target.is_dir():
        archive = _wheel_in_cache(release) or _download(release)
        unpacking = WHEELS / f"{release}.unpacking"
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(unpacking)
        unpacking.replace(target)
    return library_of(release)


def _installed_root() -> Path:
    return Path(str(importlib.metadata.distribution("onnxruntime").locate_file("")))


def _wheel_in_cache(release: str) -> Path | None:
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return next(iter(sorted(WHEELS.glob(f"onnxruntime-{release}-{tag}-*.whl"))), None)


def _download(release: str) -> Path:
    WHEELS.mkdir(exist_ok=True)
    options = ["--no-deps", "--only-binary", ":all:", "--quiet", "--disable-pip-version-check"]
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        *options,
        f"onnxruntime=={release}",
        "--dest",
        str(WHEELS),
    ]
    # make exports the constraints that pin the installed release.
    environment = {key: value for key, value in os.environ.items() if key != "PIP_CONSTRAINT"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    archive = _wheel_in_cache(release)
    if done.returncode != 0 or archive is None:
        python = (
            f"Python {sys.version_info.major}.{sys.version_info.minor} on"
            f" {sysconfig.get_platform()}"
        )
        reason = done.stderr.strip().splitlines()[-1:] or ["pip gave no wheel for this interpreter"]
        raise WheelUnavailableError(
            f"onnxruntime {release} has no wheel for {python} here: {reason[0]}"
        )
    return archive


def main() -> int:
    """Fetches every other release; 1 if one cannot be had."""
    failures = 0
    for release in OTHER_RELEASES:
        try:
            print(f"onnxruntime {release}: {fetch(release).relative_to(REPOSITORY)}")
        except WheelUnavailableError as error:
            print(error, file=sys.stderr)
            failures = 1
    return failures


if __name__ == "__main__":
    sys.exit(main())
