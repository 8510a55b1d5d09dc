"""Command-line arguments that choose the models of a folder for a benchmark."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``DIRECTORY``, ``NAME ...`` and ``--json FILE``."""
    parser.add_argument("directory", type=Path)
    parser.add_argument("names", nargs="*", help="part of a model's name; default: all models")
    parser.add_argument("--json", type=Path, help="also write the figures there")


def chosen_models(arguments: argparse.Namespace) -> list[Path]:
    """Return the chosen ONNX files, by name.

    Raises:
        SystemExit: no model has one of the names.
    """
    paths = sorted(arguments.directory.glob("*.onnx"), key=lambda path: path.stem)
    for name in arguments.names:
        if not any(name in path.stem for path in paths):
            raise SystemExit(f"no model in {arguments.directory} has {name!r} in its name")
    if not arguments.names:
        return paths
    return [path for path in paths if any(name in path.stem for name in arguments.names)]
