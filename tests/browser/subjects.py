"""The packages whose reports are looked at, each made once."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import onnx

from benchmarks.report_models import bert_like_model, chain_model
from benchmarks.tape_plugin import tape_plugin
from ortpkg import ModelPackage, NewVariant, ReportWishes, create
from ortpkg.api.bench.benchmark import BenchWishes, bench
from tests.report.models import package_called

SAMPLES = Path(__file__).resolve().parents[2] / "sample_packages"

#: What a name could want to be: elements, attributes, templates, scripts, comments, turned text.
HOSTILE_NAME = (
    "<img src=x onerror=alert(1)>\"'`&amp;</script></style></title></textarea>--><svg/onload=alert(2)>"
    "{{7*7}}{% raw %}${alert(3)}]]>javascript:alert(4)\u202eevil\u2066\u200b\u2028\x07"
)
LONG_NAME = "long/" * 2000


@cache
def report_of(subject: str) -> str:
    """The page of one of :data:`SUBJECTS`."""
    with tempfile.TemporaryDirectory() as folder:
        return SUBJECTS[subject](Path(folder))


def _digits(_: Path) -> str:
    profiles = ("snapdragon-x-laptop", "plain-server")
    return ModelPackage(SAMPLES / "digits.ortpackage").report(ReportWishes(profiles=profiles))


def _measured(_: Path) -> str:
    package = ModelPackage(SAMPLES / "digits.ortpackage")
    found = bench(package, BenchWishes(variant="cpu-fp32", backend="embedded", record=False))
    return package.report(ReportWishes(results=found.results))


def _tinychar(_: Path) -> str:
    return ModelPackage(SAMPLES / "tinychar.ortpackage").report()


def _bert(folder: Path) -> str:
    root = _package_of(bert_like_model(), folder)
    with tape_plugin() as tape:
        return ModelPackage(root).report(ReportWishes(eps=(tape, "llvm")))


def _chain(folder: Path) -> str:
    return ModelPackage(_package_of(chain_model(10_000), folder)).report()


def _hostile(folder: Path) -> str:
    # A release whose rules allow any name.
    return ModelPackage(package_called(folder, HOSTILE_NAME), compat="onnxruntime-1.31").report()


def _long(folder: Path) -> str:
    return ModelPackage(package_called(folder, LONG_NAME), compat="onnxruntime-1.31").report()


def _many(folder: Path) -> str:
    return ModelPackage(package_called(folder, "many", variants=10_000)).report()


def _package_of(model: onnx.ModelProto, folder: Path) -> Path:
    onnx.save(model, folder / "model.onnx")
    create(
        folder / "p.ortpackage", [NewVariant(model=folder / "model.onnx", name="plain", ep="cpu")]
    )
    return folder / "p.ortpackage"


SUBJECTS: Mapping[str, Callable[[Path], str]] = {
    "digits": _digits,
    "measured": _measured,
    "tinychar": _tinychar,
    "bert": _bert,
    "chain": _chain,
    "hostile": _hostile,
    "long": _long,
    "many": _many,
}
