"""ModelCompiler: what it writes, where, and when it refuses."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import ortpkg
from ortpkg.capi.onnxruntime_pybind11_state import Fail
from ortpkg.foundations.errors import SessionError, UsageError
from tests.session.conftest import RESIDUAL, compiling, model_of

FEEDS = {"x": np.linspace(-1, 1, 8, dtype=np.float32).reshape(1, 8)}


def operators(path: Path) -> Counter[str]:
    return Counter(
        node.op_type for node in onnx.load(str(path), load_external_data=False).graph.node
    )


def outputs(model: Path | bytes, options: ortpkg.SessionOptions | None = None) -> Any:
    with ortpkg.InferenceSession(model, options) as session:
        return session.run(None, FEEDS)[0]


@pytest.mark.parametrize("is_embedded", [False, True])
def test_compiled_partitions_become_contexts(path: Path, is_embedded: bool) -> None:
    ortpkg.ModelCompiler(compiling(), path, is_embedded).compile_to_file()
    output = path.with_name("model_ctx.onnx")
    assert operators(output) == {"EPContext": 1}
    assert path.with_name("model_llvm.bin").exists() is not is_embedded
    np.testing.assert_array_equal(outputs(output, compiling()), outputs(path, compiling()))


def test_a_model_from_memory_becomes_bytes_or_a_file_that_is_named(path: Path) -> None:
    compiler = ortpkg.ModelCompiler(
        compiling(), path.read_bytes(), embed_compiled_data_into_model=True
    )
    np.testing.assert_array_equal(
        outputs(compiler.compile_to_bytes(), compiling()), outputs(path, compiling())
    )
    compiler.compile_to_file(str(path.with_name("named.onnx")))
    assert operators(path.with_name("named.onnx")) == {"EPContext": 1}
    with pytest.raises(UsageError, match="name the file to write"):
        compiler.compile_to_file()


def test_bytes_cannot_hold_contexts_of_other_files(path: Path) -> None:
    with pytest.raises(UsageError, match=r"needs 'model_ctx_llvm\.bin' beside it"):
        ortpkg.ModelCompiler(compiling(), path).compile_to_bytes()


def test_what_nobody_compiles_is_written_as_it_is(path: Path) -> None:
    ortpkg.ModelCompiler(ortpkg.SessionOptions(), path).compile_to_file()
    output = path.with_name("model_ctx.onnx")
    assert operators(output) == operators(path)
    np.testing.assert_array_equal(outputs(output), outputs(path))


def test_the_optimization_level_is_that_of_what_is_left(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(
        model_of(
            "g (float[2] x) => (float[2] y) { a = Identity(x) y = Neg(a) }"
        ).SerializeToString()
    )
    for level, expected in (
        ("ORT_DISABLE_ALL", {"Identity": 1, "Neg": 1}),
        ("ORT_ENABLE_BASIC", {"Neg": 1}),
    ):
        compiler = ortpkg.ModelCompiler(
            ortpkg.SessionOptions(),
            path,
            graph_optimization_level=ortpkg.GraphOptimizationLevel[level],
        )
        compiler.compile_to_file(str(tmp_path / f"{level}.onnx"))
        assert operators(tmp_path / f"{level}.onnx") == expected


def test_nothing_compiled_is_an_error_where_that_is_asked_for(path: Path) -> None:
    flag = ortpkg.OrtCompileApiFlags.ERROR_IF_NO_NODES_COMPILED
    with pytest.raises(Fail, match="Unable to compile any nodes"):
        ortpkg.ModelCompiler(ortpkg.SessionOptions(), path, flags=flag).compile_to_file()
    assert not path.with_name("model_ctx.onnx").exists()
    ortpkg.ModelCompiler(compiling(), path, flags=flag).compile_to_file()


def test_a_model_that_is_there_is_replaced_unless_that_is_an_error(path: Path) -> None:
    output = path.with_name("out.onnx")
    output.write_bytes(b"old")
    flag = ortpkg.OrtCompileApiFlags.ERROR_IF_OUTPUT_FILE_EXISTS
    with pytest.raises(Fail, match="exists already"):
        ortpkg.ModelCompiler(ortpkg.SessionOptions(), path, flags=flag).compile_to_file(str(output))
    assert output.read_bytes() == b"old"
    ortpkg.ModelCompiler(ortpkg.SessionOptions(), path).compile_to_file(str(output))
    assert operators(output) == operators(path)


def test_a_model_that_is_there_comes_back_where_compiling_fails(tmp_path: Path) -> None:
    output = tmp_path / "out.onnx"
    output.write_bytes(b"old")
    broken = model_of("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    broken.graph.node[0].op_type = "NoSuchOperator"
    with pytest.raises(ortpkg.errors.ModelError):
        ortpkg.ModelCompiler(ortpkg.SessionOptions(), broken.SerializeToString()).compile_to_file(
            str(output)
        )
    assert [each.name for each in tmp_path.iterdir()] == ["out.onnx"]
    assert output.read_bytes() == b"old"


def test_a_stream_gets_the_model_and_its_error_is_told(path: Path) -> None:
    compiler = ortpkg.ModelCompiler(ortpkg.SessionOptions(), path)
    written: list[bytes] = []
    compiler.compile_to_stream(written.append)
    np.testing.assert_array_equal(outputs(b"".join(written)), outputs(path))

    def fail(_content: bytes) -> None:
        raise ValueError("the disk is full of sand")

    with pytest.raises(SessionError, match="full of sand"):
        compiler.compile_to_stream(fail)


# --- initializers ---------------------------------------------------------------------------------


def places(path: Path) -> dict[str, dict[str, str]]:
    model = onnx.load(str(path), load_external_data=False)
    return {
        each.name: {entry.key: entry.value for entry in each.external_data}
        for each in model.graph.initializer
    }


@pytest.mark.parametrize(("threshold", "is_moved"), [(255, True), (256, False)])
def test_initializers_over_the_threshold_move_to_the_file(
    path: Path, threshold: int, is_moved: bool
) -> None:
    output = path.with_name("out.onnx")
    ortpkg.ModelCompiler(
        ortpkg.SessionOptions(),
        path,
        external_initializers_file_path="data/weights.bin",
        external_initializers_size_threshold=threshold,
    ).compile_to_file(str(output))
    expected = {"location": "data/weights.bin", "offset": "0", "length": "256"} if is_moved else {}
    assert places(output) == {"w": expected}
    np.testing.assert_array_equal(outputs(output), outputs(path))


def test_a_function_says_where_each_initializer_lies(path: Path) -> None:
    output, data = path.with_name("out.onnx"), path.with_name("mine.bin")
    asked: list[tuple[str, int, object]] = []

    def locate(
        name: str, value: ortpkg.OrtValue, known: ortpkg.OrtExternalInitializerInfo | None
    ) -> ortpkg.OrtExternalInitializerInfo:
        asked.append((name, value.numpy().nbytes, known))
        data.write_bytes(b"head" + value.numpy().tobytes())
        return ortpkg.OrtExternalInitializerInfo(str(data), 4, value.numpy().nbytes)

    options = ortpkg.SessionOptions()
    ortpkg.ModelCompiler(options, path, get_initializer_location_func=locate).compile_to_file(
        str(output)
    )
    assert asked == [("w", 256, None)]
    assert places(output) == {"w": {"location": "mine.bin", "offset": "4", "length": "256"}}
    np.testing.assert_array_equal(outputs(output), outputs(path))


def test_a_function_may_keep_the_place_of_the_source_model(path: Path) -> None:
    source, output = path.with_name("source.onnx"), path.with_name("out.onnx")
    model = model_of(RESIDUAL)
    (weight,) = model.graph.initializer
    weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight), "w"))
    onnx.save(model, source, save_as_external_data=True, location="w.bin", size_threshold=0)
    ortpkg.ModelCompiler(
        ortpkg.SessionOptions(),
        source,
        get_initializer_location_func=lambda _name, _value, known: known,
    ).compile_to_file(str(output))
    assert places(output)["w"]["location"] == "w.bin"
    np.testing.assert_array_equal(outputs(output), outputs(path))


@pytest.mark.parametrize("name", ["../w.bin", "/elsewhere/w.bin", "out.onnx"])
def test_initializers_stay_in_the_model_s_folder(path: Path, name: str) -> None:
    compiler = ortpkg.ModelCompiler(
        ortpkg.SessionOptions(), path, external_initializers_file_path=name
    )
    with pytest.raises(UsageError, match="in the folder of the compiled model"):
        compiler.compile_to_file(str(path.with_name("out.onnx")))


# --- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["", b""])
def test_an_empty_model_is_refused(model: str | bytes) -> None:
    with pytest.raises(ValueError, match="empty"):
        ortpkg.ModelCompiler(ortpkg.SessionOptions(), model)


def test_arguments_that_contradict_each_other_are_refused(path: Path) -> None:
    with pytest.raises(ValueError, match="not both"):
        ortpkg.ModelCompiler(
            ortpkg.SessionOptions(),
            path,
            external_initializers_file_path="w.bin",
            get_initializer_location_func=lambda _name, _value, _known: None,
        )
    with pytest.raises(TypeError, match="a path or bytes"):
        ortpkg.ModelCompiler(ortpkg.SessionOptions(), 3)  # type: ignore[arg-type]


def test_the_caller_s_options_stay_as_they_are(path: Path) -> None:
    options = compiling()
    ortpkg.ModelCompiler(options, path).compile_to_file()
    assert set(options.config_entries) == {"ortpkg.backend"}
    assert options.graph_optimization_level is ortpkg.GraphOptimizationLevel.ORT_ENABLE_ALL


def test_nothing_is_compiled_for_a_provider_that_nobody_named(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # as if all that the machine has were that
    monkeypatch.setenv("ORTPKG_PROVIDERS", "llvm, cpu")
    ortpkg.ModelCompiler(ortpkg.SessionOptions(), path).compile_to_file()
    assert "EPContext" not in operators(path.with_name("model_ctx.onnx"))
