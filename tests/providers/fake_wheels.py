"""Writes installed wheels of a plug-in EP; their libraries are empty stand-ins."""

from __future__ import annotations

from pathlib import Path

from ortpkg.runtime.providers import onnxruntime_factory
from ortpkg.runtime.providers.ep_discovery.ep_libraries import forget_ep_libraries

#: File name of the library of most of them.
LIBRARY = "libonnxruntime_providers_acme.so"
#: A package as Microsoft's wheels have it.
SOURCE = f"""
import os

def get_library_path():
    return os.path.join(os.path.dirname(__file__), "{LIBRARY}")

def get_ep_name():
    return "AcmeExecutionProvider"

def get_ep_names():
    return [get_ep_name()]
"""


def write_wheel(
    site: Path,
    name: str = "onnxruntime-ep-acme",
    version: str = "1.2",
    source: str | None = SOURCE,
    *,
    package: str = "",
    libraries: tuple[str, ...] = (LIBRARY,),
    has_record: bool = True,
) -> Path:
    """Install a wheel into ``site``; return the folder of its package.

    Args:
        site: folder with all packages.
        name, version: name and version of the distribution.
        source: text of the package's ``__init__.py``; None for a package without one.
        package: path of the package in ``site``; default: the distribution's name.
        libraries: paths in the package of stand-ins for libraries.
        has_record: True to list the files in RECORD.
    """
    stem = name.replace("-", "_")
    folder = site / (package or stem)
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    if source is not None:
        files.append(folder / "__init__.py")
        files[0].write_text(source, encoding="utf-8")
    for library in libraries:
        files.append(folder / library)
        files[-1].parent.mkdir(parents=True, exist_ok=True)
        files[-1].write_bytes(b"no library")
    record = site / f"{stem}-{version}.dist-info"
    record.mkdir()
    (record / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n", encoding="utf-8")
    if has_record:
        lines = [f"{path.relative_to(site).as_posix()},sha256=x,1\n" for path in files]
        (record / "RECORD").write_text("".join(lines), encoding="utf-8")
    forget_installed()
    return folder


def forget_installed() -> None:
    """Clear the caches of what is installed."""
    forget_ep_libraries()
    onnxruntime_factory.installed_distributions.cache_clear()
