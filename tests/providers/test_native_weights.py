"""Weights of partitions for native libraries: outside of the message, wherever they lie."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tracemalloc
import weakref
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper

import ortpkg
from ortpkg.foundations.errors import ModelFileError
from ortpkg.foundations.isolation.worker import WorkerCallError
from ortpkg.foundations.storage.file_stamp import file_stamp
from ortpkg.graph.graph import ArrayInitializer
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.types import ElementType
from ortpkg.runtime.ep_context.ep_context_checks import PartsFile
from ortpkg.runtime.providers import native_model as native_model_module
from ortpkg.runtime.providers.isolated_model import IsolatedLibrary, compile_request
from ortpkg.runtime.providers.library_traits import LIBRARY_TRAITS, WeightForm
from ortpkg.runtime.providers.native_library import NativeModel
from ortpkg.runtime.providers.native_model import native_model
from tests.providers.native_models import SIZE, X, expected, matrix, save_products

_OPENVINO, _ONNXRUNTIME = "openvino", "onnxruntime"
_BACKENDS = [_OPENVINO, _ONNXRUNTIME]
_FORMS = [LIBRARY_TRAITS[backend].weight_form for backend in _BACKENDS]
_NBYTES = SIZE * SIZE * 4
_REPOSITORY = Path(__file__).parents[2]


def _names(backend: str) -> str:
    pytest.importorskip(backend)
    return "OpenVINOExecutionProvider" if backend == _OPENVINO else "CPUExecutionProvider"


def _run(model: Path | bytes, backend: str, **arguments: Any) -> npt.NDArray[Any]:
    session = ortpkg.InferenceSession(
        model, providers=[_names(backend)], backend=backend, **arguments
    )
    (partition,) = session.get_partitions()
    assert partition.fused_node, "the library took the whole model"
    result: npt.NDArray[Any] = session.run(None, {"x": X})[0]
    session.close()
    return result


def _externals(model: NativeModel) -> dict[str, dict[str, str]]:
    proto = onnx.ModelProto.FromString(model.data)
    return {
        tensor.name: {entry.key: entry.value for entry in tensor.external_data}
        for tensor in proto.graph.initializer
        if tensor.data_location == TensorProto.EXTERNAL
    }


# --- in files -------------------------------------------------------------------------------------


def test_weights_in_a_file_are_named_by_file_and_offset(tmp_path: Path) -> None:
    path = save_products(tmp_path, 3)
    model = native_model(load_model(path).graph, form=WeightForm.EXTERNAL)

    assert len(model.data) < 1024
    assert model.weights_nbytes == 3 * _NBYTES
    assert not model.weights
    assert model.folder == str(tmp_path)
    assert list(model.files) == [str(tmp_path / "weights.bin")]
    assert _externals(model) == {
        f"w{number}": {
            "location": "weights.bin",
            "offset": str(number * _NBYTES),
            "length": str(_NBYTES),
        }
        for number in range(3)
    }


def test_weights_that_are_to_be_inputs_are_the_mapped_bytes(tmp_path: Path) -> None:
    path = save_products(tmp_path, 3)
    model = native_model(load_model(path).graph, form=WeightForm.INPUTS)

    proto = onnx.ModelProto.FromString(model.data)
    assert [value.name for value in proto.graph.input] == ["x", "w0", "w1", "w2"]
    assert model.inputs == ("x",)
    assert model.weights_nbytes == 3 * _NBYTES
    for number, weight in enumerate(model.weights.values()):
        assert weight.file is not None
        assert (weight.file.path, weight.file.offset) == (
            str(tmp_path / "weights.bin"),
            number * _NBYTES,
        )
        assert bytes(weight.data) == matrix(number).tobytes()


@pytest.mark.parametrize("backend", _BACKENDS)
@pytest.mark.parametrize("isolate", [False, True])
def test_the_library_reads_them_there(tmp_path: Path, backend: str, isolate: bool) -> None:
    path = save_products(tmp_path / "a folder", 3)
    np.testing.assert_allclose(
        _run(path, backend, isolate=isolate), expected(3), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("backend", _BACKENDS)
def test_weights_in_several_folders_are_read(tmp_path: Path, backend: str) -> None:
    path = save_products(tmp_path, 2, locations=["one/é/w.bin", "two/w.bin"])
    np.testing.assert_allclose(_run(path, backend), expected(2), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", _BACKENDS)
def test_a_link_in_the_cache_of_a_hub_is_followed(tmp_path: Path, backend: str) -> None:
    path = save_products(tmp_path / "snapshot", 1)
    (tmp_path / "snapshot" / "weights.bin").rename(tmp_path / "blob")
    (tmp_path / "snapshot" / "weights.bin").symlink_to(tmp_path / "blob")
    np.testing.assert_allclose(_run(path, backend), expected(1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", _BACKENDS)
def test_weights_inside_of_the_model_are_named_there_where_they_are_aligned(
    tmp_path: Path, backend: str
) -> None:
    """The message of a model has its weights at any offset; libraries compute on aligned memory."""
    for padding in range(4):
        path = save_products(
            tmp_path / str(padding), 1, locations=[""], doc_string="." * (padding + 1)
        )
        model = native_model(load_model(path).graph, form=LIBRARY_TRAITS[backend].weight_form)
        assert len(model.data) < 1024
        files = [weight.file for weight in model.weights.values()]
        if not files:
            (entries,) = _externals(model).values()
            assert int(entries["offset"]) % 4 == 0
            assert entries["location"] == "model.onnx"
        elif files[0] is not None:
            assert files[0].offset % 4 == 0
        np.testing.assert_allclose(_run(path, backend), expected(1), rtol=1e-4, atol=1e-5)


def test_all_but_one_in_four_such_weights_are_handed_over_as_memory(tmp_path: Path) -> None:
    paths = [
        save_products(tmp_path / str(padding), 1, locations=[""], doc_string="." * (padding + 1))
        for padding in range(4)
    ]
    models = [native_model(load_model(path).graph, form=WeightForm.EXTERNAL) for path in paths]
    assert sorted(bool(model.weights) for model in models) == [False, True, True, True]


# --- in memory ------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize("backend", _BACKENDS)
@pytest.mark.parametrize("isolate", [False, True])
def test_weights_in_memory_are_handed_over_as_they_lie(
    tmp_path: Path, backend: str, isolate: bool
) -> None:
    data = save_products(tmp_path, 3, locations=[""] * 3).read_bytes()
    np.testing.assert_allclose(
        _run(data, backend, isolate=isolate), expected(3), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("form", _FORMS)
def test_no_byte_of_them_is_in_the_message(tmp_path: Path, form: WeightForm) -> None:
    data = save_products(tmp_path, 3, locations=[""] * 3).read_bytes()
    model = native_model(load_model(data).graph, form=form)
    assert len(model.data) < 1024
    assert [weight.data.nbytes for weight in model.weights.values()] == [_NBYTES] * 3


def test_a_weight_that_was_computed_is_in_no_file(tmp_path: Path) -> None:
    graph = load_model(save_products(tmp_path, 2)).graph
    twos = np.full((SIZE, SIZE), 2, np.float32)
    graph.remove_initializer("w0")
    graph.add_initializer(ArrayInitializer("w0", twos, ElementType.FLOAT))
    model = native_model(graph, form=WeightForm.EXTERNAL)
    assert list(model.weights) == ["w0"]
    assert np.frombuffer(model.weights["w0"].data, np.float32).ctypes.data == twos.ctypes.data


# --- element types --------------------------------------------------------------------------------

_CASTS = {
    TensorProto.BFLOAT16: ml_dtypes.bfloat16,
    TensorProto.FLOAT16: np.float16,
    TensorProto.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn,
    TensorProto.INT4: ml_dtypes.int4,
    TensorProto.UINT4: ml_dtypes.uint4,
    TensorProto.INT8: np.int8,
    TensorProto.DOUBLE: np.float64,
    TensorProto.BOOL: np.bool_,
}


@pytest.fixture(params=_CASTS, ids=lambda number: TensorProto.DataType.Name(number).lower())
def typed(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Any]:
    """A model with a weight of the type in a file, cast to float32, and what that is."""
    values = (np.arange(SIZE * SIZE).reshape(SIZE, SIZE) % 7).astype(_CASTS[request.param])
    weight = onnx.numpy_helper.from_array(values, "w")
    weight.data_type = request.param
    nodes = [
        helper.make_node("Cast", ["w"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["x", "f"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "typed",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, SIZE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [SIZE, SIZE])],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path = tmp_path / "typed.onnx"
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    return path, X + values.astype(np.float32)


def _run_unoptimized(model: Path | bytes) -> npt.NDArray[Any]:
    options = ortpkg.SessionOptions()
    options.graph_optimization_level = ortpkg.GraphOptimizationLevel.ORT_DISABLE_ALL
    return _run(model, _ONNXRUNTIME, sess_options=options)


def test_elements_of_any_type_are_read_from_a_file(typed: tuple[Path, Any]) -> None:
    pytest.importorskip("onnxruntime")
    path, result = typed
    np.testing.assert_array_equal(_run_unoptimized(path), result)


def test_elements_of_any_type_are_read_from_memory(typed: tuple[Path, Any]) -> None:
    pytest.importorskip("onnxruntime")
    path, result = typed
    np.testing.assert_array_equal(_run_unoptimized(onnx.load(path).SerializeToString()), result)


# --- graphs inside of nodes -----------------------------------------------------------------------


@pytest.mark.parametrize("backend", _BACKENDS)
@pytest.mark.parametrize("source", ["file", "memory"])
def test_weights_of_a_branch_are_read(tmp_path: Path, backend: str, source: str) -> None:
    path = save_branches(tmp_path)
    model = path if source == "file" else onnx.load(path).SerializeToString()
    session = ortpkg.InferenceSession(model, providers=[_names(backend)], backend=backend)
    for condition, weight in ((True, 2.0), (False, 3.0)):
        y = session.run(None, {"x": X, "c": np.array(condition)})[0]
        np.testing.assert_allclose(
            y, X @ np.full((SIZE, SIZE), weight, np.float32), rtol=1e-4, atol=1e-5
        )


def test_weights_of_a_branch_in_a_file_are_named_there(tmp_path: Path) -> None:
    """OpenVINO gets them inside of the message: a branch has no inputs of its own."""
    graph = load_model(save_branches(tmp_path)).graph
    assert len(native_model(graph, form=WeightForm.EXTERNAL).data) < 1024
    assert len(native_model(graph, form=WeightForm.INPUTS).data) > 2 * _NBYTES


def save_branches(folder: Path) -> Path:
    """Save a model whose branches have a weight each, in one file."""
    branches = []
    for name, value in (("then", 2.0), ("else", 3.0)):
        weight = onnx.numpy_helper.from_array(np.full((SIZE, SIZE), value, np.float32), f"w_{name}")
        node = helper.make_node("MatMul", ["x", f"w_{name}"], [f"y_{name}"])
        output = helper.make_tensor_value_info(f"y_{name}", TensorProto.FLOAT, [1, SIZE])
        branches.append(helper.make_graph([node], name, [], [output], [weight]))
    node = helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])
    graph = helper.make_graph(
        [node],
        "branches",
        [
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, SIZE]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, SIZE])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    with (folder / "w.bin").open("wb") as file:
        for attribute in model.graph.node[0].attribute:
            (tensor,) = attribute.g.initializer
            onnx.external_data_helper.set_external_data(
                tensor, "w.bin", offset=file.tell(), length=len(tensor.raw_data)
            )
            file.write(tensor.raw_data)
            tensor.ClearField("raw_data")
    (folder / "branches.onnx").write_bytes(model.SerializeToString())
    return folder / "branches.onnx"


# --- operators that are converted with constants alone --------------------------------------------


_FLOAT32 = json.dumps({"CPU": {"INFERENCE_PRECISION_HINT": "f32"}})


@pytest.mark.sampled(2)
@pytest.mark.parametrize("has_addresses", [True, False])
@pytest.mark.parametrize("isolate", [False, True])
@pytest.mark.parametrize("options", [{}, {"precision": "FP32"}, {"load_config": _FLOAT32}])
def test_openvino_gets_constants_where_it_converts_nothing_else(
    has_addresses: bool, isolate: bool, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("openvino")
    from ortpkg.runtime.providers import openvino_reading

    if not has_addresses:  # as in an older release
        monkeypatch.setattr(openvino_reading, "_ADDRESS_LOCATION", "no such file")
    codes = np.random.default_rng(0).integers(0, 255, (SIZE, 2, 16)).astype(np.uint8)
    scales = np.linspace(0.5, 1, SIZE * 2, dtype=np.float32)
    node = helper.make_node(
        "MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", K=SIZE, N=SIZE, bits=4,
        block_size=32,
    )  # fmt: skip
    graph = helper.make_graph(
        [node],
        "codes",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, SIZE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, SIZE])],
        [onnx.numpy_helper.from_array(codes, "w"), onnx.numpy_helper.from_array(scales, "s")],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    values = np.stack([codes & 15, codes >> 4], -1).reshape(SIZE, 2, 32).astype(np.float32) - 8
    weight = (values * scales.reshape(SIZE, 2, 1)).reshape(SIZE, SIZE)
    # Unless it is asked not to, OpenVINO rounds groups of 32 activations to 8 bits, as far as the
    # CPU has instructions for these, and computes in bfloat16 where it has some for that.
    result = _run(model.SerializeToString(), _OPENVINO, isolate=isolate, provider_options=[options])
    np.testing.assert_allclose(result, X @ weight.T, rtol=1e-5, atol=1e-4)  # of up to 81


_BLOCKS = """
<ir_version: 10, opset_import: ["": 21]> g (float[1, 64] x) => (float[1, 64] y) {
    w = DequantizeLinear<axis = 1, block_size = 32>(codes, scales)
    t = Transpose<perm = [1, 0]>(w)
    y = MatMul(x, t)
}
"""


@pytest.mark.parametrize("element_type", [TensorProto.INT8, TensorProto.INT4])
def test_openvino_keeps_activations_of_products_with_integer_weights(element_type: int) -> None:
    pytest.importorskip("openvino")
    codes = np.random.default_rng(0).integers(-8, 8, (SIZE, SIZE)).astype(np.int8)
    scales = np.linspace(0.5, 1, SIZE * 2, dtype=np.float32).reshape(SIZE, 2)
    model = onnx.parser.parse_model(_BLOCKS)
    model.graph.initializer.append(
        helper.make_tensor("codes", element_type, codes.shape, codes.ravel())
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(scales, "scales"))
    result = _run(model.SerializeToString(), _OPENVINO)
    weight = codes * np.repeat(scales, 32, axis=1)
    np.testing.assert_allclose(result, X @ weight.T, rtol=1e-5, atol=1e-4)


def test_whoever_asks_for_rounded_activations_gets_them() -> None:
    openvino = pytest.importorskip("openvino")
    from ortpkg.runtime.providers.openvino_library import OpenVinoLibrary

    config = json.dumps({"CPU": {"DYNAMIC_QUANTIZATION_GROUP_SIZE": 32}})
    for options, size in (({}, 0), ({"load_config": config}, 32)):
        library = OpenVinoLibrary(options=options)
        parameter = openvino.opset8.parameter([1], dtype=np.float32)
        model = openvino.Model([openvino.opset8.relu(parameter)], [parameter])
        compiled = library._core.compile_model(model, "CPU", library._properties)
        assert compiled.get_property("DYNAMIC_QUANTIZATION_GROUP_SIZE") == size


# --- memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", _FORMS)
def test_a_large_weight_is_copied_nowhere(tmp_path: Path, form: WeightForm) -> None:
    path = save_products(tmp_path, 1, size=8192)  # 256 MiB, sparse
    graph = load_model(path).graph
    tracemalloc.start()
    try:
        model = native_model(graph, form=form)
        request = compile_request(model)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20
    assert sum(memoryview(buffer).nbytes for buffer in request.buffers) < 1024


_RUNS_WITHOUT_WRITING = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # an error of the call, not the end of the process
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
import numpy as np
import ortpkg
from tests.providers.test_native_weights import _private_nbytes
ids = np.array([0, int(sys.argv[2]) - 1, 1])
before = _private_nbytes()
for isolate in (False, True):
    arguments = {"providers": ["CPUExecutionProvider"], "backend": "onnxruntime"}
    with ortpkg.InferenceSession(sys.argv[1], isolate=isolate, **arguments) as session:
        (y,) = session.run(None, {"x": ids})
        assert _private_nbytes() - before < 128 << 20
        print(*y.sum(axis=1))
"""


def test_a_model_beyond_what_a_message_may_have_is_run_where_it_lies(tmp_path: Path) -> None:
    """Read three rows of 2.3 GiB, in a process in which any write to a file fails."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("resource")
    table_rows = 9_650_000
    path = _save_lookup(tmp_path, table_rows)
    away = str(path / "no folder")
    done = subprocess.run(
        [sys.executable, "-B", "-c", _RUNS_WITHOUT_WRITING, str(path), str(table_rows)],
        env={
            **os.environ,
            "TMPDIR": away,
            "ORTPKG_CACHE_DIR": away,
            "PYTHONPATH": str(_REPOSITORY),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        np.testing.assert_allclose([*map(float, line.split())], [0, X.sum(), 0], rtol=1e-5)
    assert len(done.stdout.splitlines()) == 2
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.onnx", "table.bin"]


def _save_lookup(folder: Path, table_rows: int) -> Path:
    """Save a model that looks up three rows in a sparse file, whose last row is X."""
    table = TensorProto(name="table", data_type=TensorProto.FLOAT, dims=[table_rows, SIZE])
    table.data_location = TensorProto.EXTERNAL
    table.external_data.add(key="location", value="table.bin")
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "x"], ["y"])],
        "lookup",
        [helper.make_tensor_value_info("x", TensorProto.INT64, [3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, SIZE])],
        [table],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    with (folder / "table.bin").open("wb") as file:
        file.truncate(4 * SIZE * table_rows)
        file.seek(-4 * SIZE, 2)
        file.write(X.tobytes())
    return folder / "model.onnx"


@pytest.mark.slow
@pytest.mark.parametrize("isolate", [False, True])
def test_a_model_of_20_gib_is_run_where_it_lies(tmp_path: Path, isolate: bool) -> None:
    """Read three rows of a sparse file."""
    pytest.importorskip("onnxruntime")
    table_rows = (20 << 30) // (4 * SIZE)
    path = _save_lookup(tmp_path, table_rows)
    before = _private_nbytes()
    with ortpkg.InferenceSession(
        path, providers=["CPUExecutionProvider"], backend=_ONNXRUNTIME, isolate=isolate
    ) as session:
        (y,) = session.run(None, {"x": np.array([0, table_rows - 1, 1])})
        np.testing.assert_array_equal(y, np.concatenate([X * 0, X, X * 0]))
        assert _private_nbytes() - before < 128 << 20


@pytest.mark.slow
@pytest.mark.parametrize("backend", _BACKENDS)
def test_a_context_of_more_than_2_gib_is_kept_and_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    """Load a context with 2.3 GiB of weights that an earlier session made."""
    if shutil.disk_usage(tmp_path).free < 8 << 30:
        pytest.skip("too little room for a context of 2.3 GiB")
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "cache"))
    table_rows = 9_650_000
    path = _save_lookup(tmp_path, table_rows)
    options = ortpkg.SessionOptions()
    options.add_session_config_entry("ortpkg.ep_context_cache", str(tmp_path / "kept"))
    for _ in range(2):
        with ortpkg.InferenceSession(
            path, options, providers=[_names(backend)], backend=backend
        ) as session:
            (y,) = session.run(None, {"x": np.array([0, table_rows - 1, 1])})
            np.testing.assert_array_equal(y, np.concatenate([X * 0, X, X * 0]))
    (kept,) = (tmp_path / "kept").glob("*.bin")
    assert kept.stat().st_size > 2 << 30


@pytest.mark.parametrize("padding", range(2))  # of four, one is aligned
def test_weights_inside_of_a_model_are_in_no_memory_but_onnxruntimes(
    tmp_path: Path, padding: int
) -> None:
    """200 MB; onnxruntime copies those that are not aligned in the file from where it is mapped."""
    pytest.importorskip("onnxruntime")
    from ortpkg.runtime.providers.onnxruntime_library import copies_weights

    assert copies_weights()
    nbytes = 200 << 20
    table = TensorProto(
        name="table", data_type=TensorProto.FLOAT, dims=[nbytes // (4 * SIZE), SIZE]
    )
    table.raw_data = bytes(nbytes)
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "x"], ["y"])],
        "." * (padding + 1),
        [helper.make_tensor_value_info("x", TensorProto.INT64, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, SIZE])],
        [table],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    del model, graph, table
    tracemalloc.start()
    try:
        with ortpkg.InferenceSession(
            tmp_path / "model.onnx", providers=["CPUExecutionProvider"], backend=_ONNXRUNTIME
        ) as session:
            session.run(None, {"x": np.array([3])})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20


def test_what_onnxruntime_would_compute_on_is_aligned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")
    from ortpkg.runtime.providers import onnxruntime_library

    alignments = set()
    for padding in range(4):
        path = save_products(tmp_path / str(padding), 1, locations=[""], doc_string="." * padding)
        model = native_model(load_model(path).graph, form=WeightForm.NAMED)
        monkeypatch.setattr(onnxruntime_library, "copies_weights", lambda: True)
        assert onnxruntime_library.with_usable_weights(model) is model
        alignments.add(_address(model) % 4)
        monkeypatch.setattr(onnxruntime_library, "copies_weights", lambda: False)
        usable = onnxruntime_library.with_usable_weights(model)
        assert _address(usable) % 4 == 0
        assert bytes(usable.weights["w0"].data) == matrix(0).tobytes()
    assert alignments == {0, 1, 2, 3}


def _address(model: NativeModel) -> int:
    return int(np.frombuffer(model.weights["w0"].data, np.uint8).ctypes.data)


def _private_nbytes() -> int:
    """Return the private memory of this process; 0 if the system does not tell."""
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="ascii").splitlines() if status.exists() else []
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))


def test_a_model_beyond_what_a_message_may_have_is_described(tmp_path: Path) -> None:
    """Describe three weights of 2.25 GiB each without reading a byte of them."""
    path = save_products(tmp_path, 3, size=24576)
    for form in _FORMS:
        model = native_model(load_model(path).graph, form=form)
        assert model.weights_nbytes == 3 * 24576**2 * 4
        assert len(model.data) < 1024


def test_a_library_that_reads_no_weights_beside_the_message_hears_why_it_gets_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = load_model(save_products(tmp_path, 1)).graph
    assert len(native_model(graph, form=WeightForm.INSIDE).data) > _NBYTES
    for most_nbytes in (10, _NBYTES + 10):  # less than its weights; less than all of it
        monkeypatch.setattr(native_model_module, "_MOST_MODEL_NBYTES", most_nbytes)
        with pytest.raises(ValueError, match=f"at most {most_nbytes} bytes of a model can be"):
            native_model(graph, form=WeightForm.INSIDE)


# --- files that change ----------------------------------------------------------------------------


def _replace_weights(folder: Path) -> None:
    new = folder / "new.bin"
    new.write_bytes((folder / "weights.bin").read_bytes())
    new.replace(folder / "weights.bin")


@pytest.mark.parametrize("form", _FORMS)
def test_of_a_file_that_was_replaced_the_mapped_bytes_are_handed_over(
    tmp_path: Path, form: WeightForm
) -> None:
    graph = load_model(save_products(tmp_path, 2)).graph
    mapped = {
        name: initializer.numpy().tobytes() for name, initializer in graph.initializers.items()
    }
    _replace_weights(tmp_path)
    model = native_model(graph, form=form)
    assert not model.files
    assert {name: bytes(weight.data) for name, weight in model.weights.items()} == mapped
    assert all(weight.file is None for weight in model.weights.values())


def test_a_file_that_is_replaced_while_onnxruntime_reads_it_is_an_error(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    library = _library(_ONNXRUNTIME)
    model = native_model(load_model(save_products(tmp_path, 2)).graph, form=library.weight_form)
    library.compile_model(model)
    _replace_weights(tmp_path)
    with pytest.raises(ModelFileError, match=r"weights.bin' was replaced while a session"):
        library.compile_model(model)


@pytest.mark.parametrize("backend", _BACKENDS)
def test_a_file_that_is_replaced_before_a_child_maps_it_is_an_error(
    tmp_path: Path, backend: str
) -> None:
    library = IsolatedLibrary(_names(backend), backend=backend)
    try:
        library.opened()
        graph = load_model(save_products(tmp_path, 2)).graph
        model = native_model(graph, form=library.weight_form)
        _replace_weights(tmp_path)
        with pytest.raises(WorkerCallError, match=r"weights.bin' was replaced while a session"):
            library.compile_model(model)
    finally:
        library.close()


def _library(backend: str) -> Any:
    if backend == _OPENVINO:
        from ortpkg.runtime.providers.openvino_library import OpenVinoLibrary

        return OpenVinoLibrary()
    from ortpkg.runtime.providers.onnxruntime_contexts import open_onnxruntime

    return open_onnxruntime("CPUExecutionProvider")


# --- contexts -------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize("backend", _BACKENDS)
@pytest.mark.parametrize("isolate", [False, True])
@pytest.mark.parametrize("location", ["weights.bin", ""])
def test_a_kept_context_has_its_weights_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str, isolate: bool, location: str
) -> None:
    """The second session compiles nothing, and gets what the first made, from the cache's file."""
    path = save_products(tmp_path, 2, locations=[location] * 2)
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "cache"))
    for _ in range(2):
        options = ortpkg.SessionOptions()
        options.add_session_config_entry("ortpkg.ep_context_cache", str(tmp_path / "kept"))
        result = _run(path, backend, isolate=isolate, sess_options=options)
        np.testing.assert_allclose(result, expected(2), rtol=1e-4, atol=1e-5)


def test_weights_in_a_context_are_read_where_its_file_has_them(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    library = _library(_ONNXRUNTIME)
    model = native_model(load_model(save_branches(tmp_path)).graph, form=library.weight_form)
    parts = library.export_model(library.compile_model(model), model)
    assert sum(memoryview(part).nbytes for part in parts.values()) < 2 * _NBYTES + 2048
    assert sorted(parts) == ["model", "signature", "weight:0", "weight:1"]

    context_file = tmp_path / "context.bin"
    offsets = {}
    with context_file.open("wb") as file:
        for name, part in parts.items():
            file.seek(-(-file.tell() // 4096) * 4096)
            offsets[name] = file.tell()
            file.write(part)
    stamp = file_stamp(context_file)
    assert stamp is not None
    (tmp_path / "w.bin").unlink()
    feeds = [np.array(True), X]
    for parts_file in (PartsFile(path=context_file, stamp=stamp, offsets=offsets), None):
        loaded = library.import_model(parts, parts_file)
        (y,) = loaded.compute(feeds, _Unwatched())
        np.testing.assert_allclose(y, X @ np.full((SIZE, SIZE), 2, np.float32), rtol=1e-4)


def test_a_context_names_no_file_but_its_own(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    library = _library(_ONNXRUNTIME)
    model = native_model(load_model(save_products(tmp_path, 1)).graph, form=library.weight_form)
    parts = dict(library.export_model(library.compile_model(model), model))
    parts["model"] = bytes(parts["model"]).replace(b"weight:0", b"/etc/pwd")
    with pytest.raises(ValueError, match="has a weight in '/etc/pwd'"):
        library.import_model(parts)


class _Unwatched:
    is_watched = False


def test_a_session_of_onnxruntime_keeps_no_memory_that_it_has_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")
    from ortpkg.runtime.providers import onnxruntime_library

    graph = load_model(save_products(tmp_path, 1)).graph
    graph.remove_initializer("w0")
    graph.add_initializer(ArrayInitializer("w0", matrix(0), ElementType.FLOAT))
    library = _library(_ONNXRUNTIME)
    for is_copied in (onnxruntime_library.copies_weights(), False):
        monkeypatch.setattr(onnxruntime_library, "copies_weights", lambda copied=is_copied: copied)
        model = native_model(graph, form=WeightForm.EXTERNAL)
        memory = weakref.ref(model.weights["w0"].data.obj)
        compiled = library.compile_model(model)
        del model
        assert (memory() is None) is is_copied
        np.testing.assert_allclose(compiled.compute([X], _Unwatched())[0], expected(1), rtol=1e-4)
