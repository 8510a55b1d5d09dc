"""What recovery may delete of what digests.json calls garbage, in each generation of the format."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ortpkg.foundations.errors import PackageFormatError
from ortpkg.package.changes import garbage
from ortpkg.package.changes.garbage import files_to_delete
from ortpkg.package.integrity.digest_check import compute_digests
from ortpkg.package.integrity.digests import dump_digests, read_digests
from ortpkg.package.package_info import PackageFormat
from ortpkg.package.reader import open_package
from tests.package.conftest import WritePackage

HEX, OTHER_HEX, DECLARED_HEX = "a" * 64, "b" * 64, "c" * 64
VALUE = {"name": "x", "type": "tensor(float)", "shape": [1]}


def ort(model: str) -> dict[str, Any]:
    return {"ep": "CPUExecutionProvider", "executor_info": {"ort": {"model_file": model}}}


COMPONENT: dict[str, Any] = {
    "manifest.json": {
        "schema_version": "1.0",
        "components": {"c": "parts/c"},
        "shared_assets": {f"sha256:{DECLARED_HEX}": "parts/declared"},
    },
    "parts/c/component.json": {"variants": {"v": ort(f"sha256:{HEX}/m.onnx"), "w": ort("m.onnx")}},
    "parts/c/w/m.onnx": b"model",
    "parts/c/w/more.json": {},
    "parts/c/v/notes.txt": b"",
    f"shared_assets/sha256-{HEX}/m.onnx": b"model",
    f"shared_assets/sha256-{HEX}/in/it": b"more",
    f"shared_assets/sha256-{OTHER_HEX}/it": b"left",
    "parts/declared/it": b"declared",
    "parts/left/it": b"left",
}
METADATA: dict[str, Any] = {
    "manifest.json": {"model_name": "p", "component_models": ["m"]},
    "models/m/metadata.json": {
        "component_model_name": "m",
        "model_variants": {"v": {"model_file": "m.onnx"}, "g": {}},
    },
    "models/m/v/m.onnx": b"model",
    "models/m/v/genai_config.json": {
        "model": {
            "decoder": {"filename": "decoder.onnx", "pipeline": [{"filename": "../part.onnx"}]},
            "tokenizer_dir": "words",
            "context": {"filename": f"../../../shared_assets/sha256-{HEX}/x"},
            "vision": {"filename": f"sha256:{OTHER_HEX}/x"},
            "type": ".",
            "eos": ["", "nothing", "\0", 1],
        }
    },
    "models/m/v/decoder.onnx": b"decoder",
    "models/m/v/words/a.txt": b"a",
    "models/m/v/left.bin": b"left",
    "models/m/part.onnx": b"part",
    "models/m/g/genai_config.json": {},
    "models/m/g/any.bin": b"any",
    f"shared_assets/sha256-{HEX}/x": b"x",
    f"shared_assets/sha256-{OTHER_HEX}/x": b"x",
    f"shared_assets/sha256-{DECLARED_HEX}/x": b"left",
}


def judged(root: Path, *places: str) -> tuple[str, ...]:
    (root / "digests.json").write_bytes(dump_digests(compute_digests(root)))
    recorded = read_digests(root)
    assert recorded is not None
    files, kept = files_to_delete(root, places, recorded)
    assert kept == ()
    return files


@pytest.mark.parametrize(
    ("files", "place", "reason"),
    [
        (COMPONENT, "parts", "is in use by component model 'c'"),
        (COMPONENT, "parts/c/component.json", "is in use by component model 'c'"),
        (COMPONENT, "parts/c/w/m.onnx", "is in use by variant 'w' of 'c'"),
        (COMPONENT, "parts/c/w/more.json", "is in use by variant 'w' of 'c'"),
        (COMPONENT, "parts/declared", f"is in use by shared asset 'sha256:{DECLARED_HEX}'"),
        (COMPONENT, "parts/declared/it", f"is in use by shared asset 'sha256:{DECLARED_HEX}'"),
        (COMPONENT, "shared_assets", "is in use by variant 'v' of 'c'"),
        (
            COMPONENT,
            f"shared_assets/sha256-{HEX}/in/it",
            f"is in use by shared asset 'sha256:{HEX}'",
        ),
        (METADATA, "models/m/v/decoder.onnx", "is in use by 'models/m/v/genai_config.json'"),
        (METADATA, "models/m/part.onnx", "is in use by 'models/m/v/genai_config.json'"),
        (METADATA, "models/m/v/words", "is in use by 'models/m/v/genai_config.json'"),
        (METADATA, "models/m/v/words/a.txt", "is in use by 'models/m/v/genai_config.json'"),
        (METADATA, "models/m/g/any.bin", "is in use by variant 'g', a set of files"),
        (METADATA, f"shared_assets/sha256-{HEX}/x", "is in use by 'models/m/v/genai_config.json'"),
        (METADATA, f"shared_assets/sha256-{HEX}", f"is in use by shared asset 'sha256:{HEX}'"),
        (
            METADATA,
            f"shared_assets/sha256-{OTHER_HEX}",
            f"is in use by shared asset 'sha256:{OTHER_HEX}'",
        ),
    ],
)
def test_what_a_document_names_is_no_garbage(
    write_package: WritePackage, files: dict[str, Any], place: str, reason: str
) -> None:
    with pytest.raises(PackageFormatError) as raised:
        judged(write_package(files), place)
    assert (
        f"calls '{place}' garbage of an interrupted change, which it cannot be: it {reason}"
        in str(raised.value)
    )


@pytest.mark.parametrize(
    ("files", "place", "gone"),
    [
        (COMPONENT, f"shared_assets/sha256-{OTHER_HEX}", f"shared_assets/sha256-{OTHER_HEX}/it"),
        (COMPONENT, "parts/left", "parts/left/it"),
        (METADATA, "models/m/v/left.bin", "models/m/v/left.bin"),
        (
            METADATA,
            f"shared_assets/sha256-{DECLARED_HEX}",
            f"shared_assets/sha256-{DECLARED_HEX}/x",
        ),
    ],
)
def test_what_nothing_names_is_garbage(
    write_package: WritePackage, files: dict[str, Any], place: str, gone: str
) -> None:
    assert judged(write_package(files), place) == (gone,)


def test_the_pipeline_and_what_samples_name_are_no_garbage(write_package: WritePackage) -> None:
    step = {"component": "c", "inputs": {"x": "x"}, "outputs": {"y": "y"}}
    pipeline = {
        "schema_version": "1.0",
        "inputs": [VALUE],
        "outputs": [VALUE | {"name": "y"}],
        "steps": [step],
    }
    root = write_package(COMPONENT | {"pipeline.json": pipeline})
    assert open_package(root).has_pipeline
    with pytest.raises(PackageFormatError, match="it is in use by the pipeline"):
        judged(root, "pipeline.json")


def test_digests_that_are_written_with_escapes_are_found(write_package: WritePackage) -> None:
    root = write_package(METADATA)
    config = json.dumps({"model": {"filename": f"sha256:{DECLARED_HEX}"}}).replace(
        "sha", "\\u0073\\u0068a"
    )
    (root / "models/m/v/genai_config.json").write_text(config)
    with pytest.raises(PackageFormatError, match="is in use by shared asset"):
        judged(root, f"shared_assets/sha256-{DECLARED_HEX}")


def test_nothing_goes_while_a_configuration_cannot_be_read(write_package: WritePackage) -> None:
    root = write_package(METADATA | {"models/m/v/genai_config.json": b"{"})
    with pytest.raises(
        PackageFormatError, match=r"nobody knows .* models/m/v/genai_config.json: is not valid JSON"
    ):
        judged(root, "models/m/v/left.bin")


@pytest.mark.parametrize("few", [100, 0])
@pytest.mark.parametrize("name", ["weights.bin", "n" * 200])
@pytest.mark.parametrize("written", ["{length}{name}", "x./{name}", "x//{name}"])
def test_what_a_model_refers_to_is_found_however_many_files_are_looked_for(
    write_package: WritePackage, monkeypatch: pytest.MonkeyPatch, few: int, name: str, written: str
) -> None:
    monkeypatch.setattr(garbage, "_FEW_PATTERNS", few)
    monkeypatch.setattr(garbage, "_CHUNK_NBYTES", 64)
    length = (
        bytes([len(name)]) if len(name) < 128 else bytes([len(name) & 127 | 128, len(name) >> 7])
    )
    reference = written.encode().replace(b"{length}", length).replace(b"{name}", name.encode())
    root = write_package(
        METADATA | {"models/m/v/m.onnx": b"." * 40 + reference, f"models/m/v/{name}": b"w"}
    )
    others = [f"models/m/v/other{number}.bin" for number in range(3)]
    for other in others:
        (root / other).write_bytes(b"w")
    with pytest.raises(
        PackageFormatError, match=f"calls 'models/m/v/{name[:50]}.* is in use by the model 'm.onnx'"
    ):
        judged(root, *others, f"models/m/v/{name}")
    assert judged(root, *others) == tuple(others)


@pytest.mark.parametrize("compat", [None, "onnxruntime-1.31"])
def test_shared_assets_that_cannot_be_listed_are_told_where_the_package_is_to_be_complete(
    write_package: WritePackage, monkeypatch: pytest.MonkeyPatch, compat: str | None
) -> None:
    root = write_package(
        {"manifest.json": {"schema_version": "1.0", "components": {}}, "shared_assets/x": b""}
    )
    scandir = os.scandir

    def refuse(path: Any) -> Any:
        if Path(os.fsdecode(path)).name == "shared_assets":
            raise OSError(5, "Input/output error")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    if compat is not None:
        assert open_package(root, compat=compat).format is PackageFormat.COMPONENT
        return
    with pytest.raises(
        PackageFormatError, match="shared_assets: cannot be read: Input/output error"
    ):
        open_package(root)
