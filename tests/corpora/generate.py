"""Writes the corpora: ``python -m tests.corpora.generate``.

One case is one folder or archive, its verdict in its name.

``tests/data/formats/<verdict>-<path>-in-<field>/`` is a package in which one field holds one path;
the verdict is ``accept``, or ``refuse`` with the rule that ortpkg has to name.
``tests/data/archives/<verdict>-<case>.zip`` is a packed package of
``tests/package/archive_cases.py``. What is committed is what other tools can be tried with; a test
compares it with what is generated.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.package.archive_cases import CASES as ARCHIVE_CASES

DATA = Path(__file__).resolve().parents[1] / "data"
FORMATS, ARCHIVES = DATA / "formats", DATA / "archives"
VERDICTS = {"reject": "refuse", "accept": "accept"}
HEX = 64 * "a"

#: Name → (path, the rule that refuses it; "" for none). ``{}`` stands for what the field would hold
#: otherwise.
PATHS: dict[str, tuple[str, str]] = {
    "plain": ("{}", ""),
    "dotdot": ("../{}", "ORT008"),
    "dotdot-inside": ("x/../../{}", "ORT008"),
    "dotdot-at-the-end": ("{}/..", "ORT008"),
    "absolute": ("/etc/{}", "ORT008"),
    "two-slashes": ("//server/{}", "ORT008"),
    "drive": ("C:{}", "ORT008"),
    "drive-absolute": ("C:/{}", "ORT008"),
    "backslash": ("..\\{}", "ORT008"),
    "unc": ("\\\\server\\{}", "ORT008"),
    "verbatim": ("\\\\?\\C:\\{}", "ORT008"),
    "device": ("NUL", "ORT008"),
    "device-with-suffix": ("x/COM1.txt", "ORT008"),
    "stream": ("{}:hidden", "ORT008"),
    "trailing-dot": ("{}.", "ORT008"),
    "trailing-space": ("{} ", "ORT008"),
    "control": ("x\u001b[2J", "ORT008"),
    "nul": ("{}\u0000.txt", "ORT008"),
    "right-to-left": ("x\u202egpj.exe", "ORT008"),
    "surrogate": ("\ud800", "ORT003"),
    "long-name": ("x" * 256, "ORT008"),
    "empty": ("", "ORT011"),
    "missing": ("nothing-here", "ORT010"),
}

Files = dict[str, Any]


def _metadata(**body: Any) -> Files:
    """A package of the metadata generation with component ``c`` and variant ``v``."""
    return {
        "manifest.json": {"model_name": "m", "component_models": ["c"]},
        "models/c/metadata.json": {"component_model_name": "c", "model_variants": {"v": body}},
        "models/c/v/model.onnx": "",
    }


def _component(body: Any, **manifest: Any) -> Files:
    """A package of the component generation with an inline component ``c``."""
    return {
        "manifest.json": {"schema_version": "1.0", "components": {"c": body}} | manifest,
        "v/model.onnx": "",
    }


def _variant(**body: Any) -> Files:
    return _component({"variants": {"v": {"variant_directory": "v"} | body}})


def _ort(payload: Any) -> Files:
    return _variant(executor_info={"ort": payload})


def _option(key: str, path: str) -> Files:
    return _ort({"model_file": "model.onnx", "session_options": {key: path}}) | {"v/data/w.bin": ""}


def _sample(path: str, key: str) -> Files:
    """An expected-outputs or inputs file of samples.json."""
    sample = {"name": "s", "component": "c", "inputs": "in.npz"} | {key: path}
    return _metadata(model_file="model.onnx") | {
        "samples/samples.json": {"schema_version": "1.0", "samples": [sample]},
        "samples/in.npz": "",
    }


#: Field → (what it holds otherwise, the package with another path in it).
FIELDS: dict[str, tuple[str, Callable[[str], Files]]] = {
    "model_file": ("model.onnx", lambda path: _metadata(model_file=path)),
    "file": ("model.onnx", lambda path: _metadata(file=path)),
    "model_id": ("v", lambda path: _metadata(model_id=path, model_file="model.onnx")),
    "component_models": (
        "c",
        lambda path: (
            _metadata(model_file="model.onnx")
            | {"manifest.json": {"model_name": "m", "component_models": [path]}}
        ),
    ),
    "components": (
        "sub",
        lambda path: _component(path) | {"sub/component.json": {"variants": {}}},
    ),
    "variant_directory": ("v", lambda path: _variant(variant_directory=path)),
    "executor_info": (
        "x.json",
        lambda path: _variant(executor_info={"ort": path}) | {"v/x.json": {}},
    ),
    "executor_info.ort.model_file": ("model.onnx", lambda path: _ort({"model_file": path})),
    "external_initializers_folder": (
        "data",
        lambda path: _option("session.model_external_initializers_file_folder_path", path),
    ),
    "context_file_path": ("data", lambda path: _option("ep.context_file_path", path)),
    "shared_assets": (
        "asset",
        lambda path: (
            _component({"variants": {}}, shared_assets={f"sha256:{HEX}": path}) | {"asset/f": ""}
        ),
    ),
    "samples.inputs": ("in.npz", lambda path: _sample(path, "inputs")),
    "samples.expected_outputs": ("in.npz", lambda path: _sample(path, "expected_outputs")),
}

_MODEL_ID_IS_NO_NAME = (
    "absolute", "backslash", "device-with-suffix", "dotdot", "dotdot-inside", "drive",
    "drive-absolute", "stream", "two-slashes", "unc", "verbatim",
)  # fmt: skip

#: Where another rule is the one to be named: (path, field) → rule, "" for none.
OTHER_RULES: Mapping[tuple[str, str], str] = {
    # Made a folder's name as onnxruntime 1.26 does, which no folder has.
    **{(name, "model_id"): "ORT010" for name in _MODEL_ID_IS_NO_NAME},
    # Empty is the same as absent.
    **{("empty", field): "" for field in ("file", "model_file", "model_id")},
    **{("empty", field): "" for field in ("context_file_path", "external_initializers_folder")},
    # The schema says already that these are not empty.
    **{
        ("empty", field): "ORT005"
        for field in ("component_models", "samples.expected_outputs", "samples.inputs")
    },
    ("missing", "component_models"): "ORT021",
    # A place to write to as well.
    ("missing", "context_file_path"): "",
}


def format_cases() -> dict[str, Files]:
    """Name of the case → its files."""
    found = {}
    for field, (plain, package) in FIELDS.items():
        for name, (pattern, usual) in PATHS.items():
            rule = OTHER_RULES.get((name, field), usual)
            verdict = f"refuse-{rule}" if rule else "accept"
            found[f"{verdict}-{name}-in-{field}"] = package(pattern.replace("{}", plain))
    return found


def archive_cases() -> dict[str, bytes]:
    """Name of the case → the archive."""
    found = {}
    for case in ARCHIVE_CASES:
        verdict, _, name = case.name.partition("_")
        found[f"{VERDICTS[verdict]}-{name.replace('_', '-')}"] = case.content
    return found


def content_of(files: Files) -> dict[str, bytes]:
    """The files as bytes; JSON is ASCII, so that no odd character is lost on the way."""
    return {
        path: (
            (content if isinstance(content, str) else json.dumps(content, indent=2) + "\n").encode()
        )
        for path, content in files.items()
    }


def main() -> None:
    for folder in (FORMATS, ARCHIVES):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    for name, files in format_cases().items():
        for path, content in content_of(files).items():
            target = FORMATS / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    for name, archive in archive_cases().items():
        (ARCHIVES / f"{name}.zip").write_bytes(archive)


if __name__ == "__main__":
    main()
