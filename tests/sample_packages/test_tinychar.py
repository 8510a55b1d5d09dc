"""The sample package of two components: writes text, shares weights, compiles into one binary."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

import ortpkg
from ortpkg.authoring.compiling import compile_package
from ortpkg.authoring.compile_wishes import CompileWishes
from ortpkg.runtime.ep_context.ep_context_workspace import shared_workspace
from ortpkg.package.formats.pipeline import RepeatStep, read_pipeline
from tests.npz import arrays_in

ROOT = Path(__file__).resolve().parents[2] / "sample_packages" / "tinychar.ortpackage"
SAMPLES = ROOT / "samples"
NAMES = [
    sample["name"] for sample in json.loads((SAMPLES / "samples.json").read_bytes())["samples"]
]


def write(package: ortpkg.ModelPackage, name: str, *, backend: str = "embedded") -> np.ndarray:
    session = package.create_session(backend=backend)
    (text,) = session.run(None, arrays_in(SAMPLES / f"{name}.inputs.npz"))
    return np.asarray(text)


@pytest.mark.parametrize("backend", ["embedded", "onnxruntime"])
@pytest.mark.parametrize("name", NAMES)
def test_writes_the_same_text_on_both_engines(name: str, backend: str) -> None:
    expected = arrays_in(SAMPLES / f"{name}.outputs.npz")["text"]
    np.testing.assert_array_equal(write(ortpkg.ModelPackage(ROOT), name, backend=backend), expected)


def test_the_text_is_text_of_its_vocabulary() -> None:
    words = json.loads((SAMPLES / "vocabulary.json").read_bytes())["words"]
    written = "".join(
        words[number] for number in arrays_in(SAMPLES / f"{NAMES[0]}.outputs.npz")["text"].ravel()
    )
    assert len(written) == 120
    assert written.count(" ") > 10
    assert " the " in written or " and " in written or " I " in written


@pytest.mark.requirement("E42", "K14", "K20")
def test_two_component_models_lie_in_one_directory_over_one_file_of_weights() -> None:
    package = ortpkg.ModelPackage(ROOT)
    directories = {component.variants[0].directory for component in package.component_models}
    assert [component.name for component in package.component_models] == ["prefill", "decode"]
    assert len(directories) == 1
    places: list[dict[str, tuple[str, str]]] = []
    for component in package.component_models:
        path = component.variants[0].model_path
        assert path is not None
        model = onnx.load(path, load_external_data=False)
        external = [tensor for tensor in model.graph.initializer if tensor.external_data]
        entries = {
            tensor.name: {entry.key: entry.value for entry in tensor.external_data}
            for tensor in external
        }
        places.append(
            {name: (found["location"], found["offset"]) for name, found in entries.items()}
        )
    shared = places[0].keys() & places[1].keys()
    assert len(shared) > 20
    assert all(places[0][name] == places[1][name] for name in shared)


def test_the_loop_carries_the_cache_and_the_token() -> None:
    pipeline = read_pipeline(ortpkg.ModelPackage(ROOT).info)
    assert pipeline is not None
    (repeat,) = (step for step in pipeline.steps if isinstance(step, RepeatStep))
    assert set(repeat.carry) == {"first", "cache"}
    assert repeat.collect == ("text",)


@pytest.mark.requirement("E43", "E50")
def test_compiled_variants_share_one_binary_and_write_the_same_text(tmp_path: Path) -> None:
    package = tmp_path / "tinychar.ortpackage"
    shutil.copytree(ROOT, package)
    compile_package(package, CompileWishes(ep="llvm", shares_weights=True))
    (binary,) = package.rglob("*.bin")
    weights = (package / "models" / "tinychar" / "cpu-fp32" / "tinychar.onnx.data").stat().st_size
    # one layout of weights for many rows (prefill) and one for a single row (decode)
    assert binary.stat().st_size < 2.2 * weights
    opened = ortpkg.ModelPackage(package)
    for component in opened.component_models:
        assert opened.best_variant(component.name).name == "cpu-fp32-llvm"
    expected = arrays_in(SAMPLES / f"{NAMES[0]}.outputs.npz")["text"]
    np.testing.assert_array_equal(write(opened, NAMES[0], backend="auto"), expected)
    assert shared_workspace("LLVMExecutionProvider").is_empty
