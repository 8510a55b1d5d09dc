"""Exports the corpus: transformers of few layers, random weights, by both of torch's exporters.

    python -m venv VENV
    VENV/bin/pip install torch transformers onnx onnxscript
    VENV/bin/python -m benchmarks.corpus.export DIRECTORY [NAME ...]

Writes ``NAME.EXPORTER.onnx`` and ``NAME.EXPORTER.npz`` with inputs. The exporters are ``script``
(TorchScript, opset 14) and ``dynamo`` (opset 18); batches and lengths are free. It is an
environment of its own: transformers asks for other versions of libraries than ortpkg's tests.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import torch

from benchmarks.corpus.architectures import ARCHITECTURES, Architecture, Inputs

_TRACED_ROWS = 2
_MOST_SECONDS = 180


def export_script(architecture: Architecture, inputs: Inputs, path: Path) -> None:
    """Exports by tracing, as most files that are in use were made."""
    torch.onnx.export(
        architecture.build(),
        tuple(tensor for tensor, _ in inputs.values()),
        path,
        input_names=list(inputs),
        output_names=list(architecture.outputs),
        dynamic_axes={name: dict(axes) for name, (_, axes) in inputs.items()},
        opset_version=14,
        do_constant_folding=True,
        dynamo=False,
    )


def export_dynamo(architecture: Architecture, inputs: Inputs, path: Path) -> None:
    """Exports a captured graph; its sizes have the names given here where torch agrees."""
    names = sorted({name for _, axes in inputs.values() for name in axes.values()})
    try:
        _export_captured(
            architecture, inputs, path, {name: torch.export.Dim(name) for name in names}
        )
    except torch.onnx.errors.OnnxExporterError:
        _export_captured(architecture, inputs, path, dict.fromkeys(names, torch.export.Dim.DYNAMIC))


def _export_captured(
    architecture: Architecture, inputs: Inputs, path: Path, sizes: Mapping[str, object]
) -> None:
    shapes = tuple(
        {axis: sizes[name] for axis, name in axes.items()} for _, axes in inputs.values()
    )
    torch.onnx.export(
        architecture.build(),
        tuple(tensor for tensor, _ in inputs.values()),
        path,
        input_names=list(inputs),
        output_names=list(architecture.outputs),
        dynamic_shapes=(shapes,),
        opset_version=18,
        external_data=False,
        dynamo=True,
    )


EXPORTERS: Mapping[str, Callable[[Architecture, Inputs, Path], None]] = {
    "script": export_script,
    "dynamo": export_dynamo,
}


@contextlib.contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raises TimeoutError in what takes longer."""

    def stop(_signal: int, _frame: object) -> None:
        raise TimeoutError(f"took over {seconds} s")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def export_one(name: str, exporter: str, directory: Path) -> str:
    """Writes one model and its inputs; returns what went wrong, "" where nothing did."""
    architecture = ARCHITECTURES[name]
    path = directory / f"{name}.{exporter}.onnx"
    torch.manual_seed(11)
    try:
        with time_limit(_MOST_SECONDS), contextlib.redirect_stdout(io.StringIO()):
            EXPORTERS[exporter](architecture, architecture.inputs(_TRACED_ROWS), path)
    except Exception as error:  # noqa: BLE001 - the next one is of interest all the same
        path.unlink(missing_ok=True)
        return f"{type(error).__name__}: {str(error).strip().splitlines()[:1]}"
    input_names = {value.name for value in onnx.load(path, load_external_data=False).graph.input}
    feeds = {
        key: value.numpy()
        for key, (value, _) in architecture.inputs(architecture.rows).items()
        if key in input_names  # exporters drop inputs that nothing reads
    }
    np.savez(path.with_suffix(".npz"), **feeds)
    return ""


def main(command_line: Sequence[str] | None = None) -> int:
    """Exports what is not there yet; failures are named, and the next one follows."""
    parser = argparse.ArgumentParser(description="Export the corpus of transformers.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--exporter", choices=tuple(EXPORTERS), action="append")
    arguments = parser.parse_args(command_line)
    arguments.directory.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore")
    for exporter in arguments.exporter or EXPORTERS:
        for name in arguments.names or ARCHITECTURES:
            if (arguments.directory / f"{name}.{exporter}.npz").exists():
                continue
            print(
                name,
                exporter,
                export_one(name, exporter, arguments.directory) or "done",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
