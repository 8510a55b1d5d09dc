"""What upstream asserts of values: feeds, outputs, OrtValue, IOBinding, sparse tensors."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.interop.python_api.behaviour import CPU, MUL, Behaviours, X, raises, same, session_of

behaviour = Behaviours()

_TEXTS = "g (string[2,2] x) => (string[2,2] y) { y = Identity(x) }"


# --- feeds ----------------------------------------------------------------------------------------


@behaviour("a feed may be a list of lists of numbers")
def list_as_input(ort: Any, folder: Path) -> None:
    same(session_of(ort, MUL).run([], {"x": X.tolist()})[0], X * X)


@behaviour("a feed may be a list of lists of texts")
def list_of_texts(ort: Any, folder: Path) -> None:
    texts = [["this", "is"], ["an", "identity"]]
    assert session_of(ort, _TEXTS).run([], {"x": texts})[0].tolist() == texts


def _identity(ort: Any, array: Any) -> Any:
    session = session_of(ort, _TEXTS)
    assert (session.get_inputs()[0].type, session.get_outputs()[0].type) == (
        "tensor(string)",
        "tensor(string)",
    )
    return session.run(["y"], {"x": array})[0]


@behaviour("texts may be numpy's, in any script")
def texts_of_numpy(ort: Any, folder: Path) -> None:
    texts = np.array(["Olá", "你好", "여보세요", "hello"]).reshape(2, 2)
    np.testing.assert_array_equal(_identity(ort, texts), texts)


@behaviour("texts may be an array of objects")
def texts_as_objects(ort: Any, folder: Path) -> None:
    texts = np.array(["this", "is", "an", "identity"], object).reshape(2, 2)
    np.testing.assert_array_equal(_identity(ort, texts), texts)


@behaviour("texts may be bytes")
def texts_as_bytes(ort: Any, folder: Path) -> None:
    # onnxruntime reads up to a NUL
    texts = np.array([b"this", b"is", b"an", b"identity"], "S9").reshape(2, 2)
    np.testing.assert_array_equal(_identity(ort, texts).astype("S9"), texts)


@behaviour("texts may be numpy's void, all of one length")
def texts_as_void(ort: Any, folder: Path) -> None:
    texts = np.array([b"must", b"have", b"same", b"size"], np.void).reshape(2, 2)
    assert _identity(ort, texts).tolist() == [["must", "have"], ["same", "size"]]


@behaviour("an optional sequence comes out as it went in")
def optional_sequence(ort: Any, folder: Path) -> None:
    session = session_of(
        ort, "g (optional(seq(float[5])) x) => (optional(seq(float[5])) y) { y = Identity(x) }"
    )
    given = [np.arange(5, dtype=np.float32)]
    same(session.run(None, {"x": given})[0], given)


@behaviour("a sequence is a list; its length is a number")
def sequence_length(ort: Any, folder: Path) -> None:
    session = session_of(ort, "g (seq(float[2,3]) x) => (int64 y) { y = SequenceLength(x) }")
    assert (session.get_inputs()[0].type, session.get_outputs()[0].type) == (
        "seq(tensor(float))",
        "tensor(int64)",
    )
    assert session.run(None, {"x": [np.ones((2, 3), np.float32)] * 2})[0] == 2


@behaviour("a sequence that a model makes is a list of arrays")
def sequence_construct(ort: Any, folder: Path) -> None:
    session = session_of(
        ort, "g (int64[2] a, int64[2] b) => (seq(int64[2]) y) { y = SequenceConstruct(a, b) }"
    )
    assert session.get_outputs()[0].type == "seq(tensor(int64))"
    (made,) = session.run(None, {"a": np.array([1, 2]), "b": np.array([3, 4])})
    assert [each.tolist() for each in made] == [[1, 2], [3, 4]]


@behaviour("an empty list is an empty sequence")
def sequence_insert(ort: Any, folder: Path) -> None:
    text = "g (seq(int64[2]) s, int64[2] t) => (seq(int64[2]) y) { y = SequenceInsert(s, t) }"
    (made,) = session_of(ort, text).run(None, {"s": [], "t": np.array([1, 2])})
    assert [each.tolist() for each in made] == [[1, 2]]


# --- classical models -----------------------------------------------------------------------------

_ML = ', "ai.onnx.ml" : 3'


def _ml_session(ort: Any, node: Any, inputs: Any, outputs: Any) -> Any:
    graph = helper.make_graph([node], "g", inputs, outputs)
    imports = [helper.make_opsetid("", 15), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    return ort.InferenceSession(model.SerializeToString(), providers=CPU)


def _zipmap(ort: Any, key: int, **classes: Any) -> Any:
    node = helper.make_node("ZipMap", ["x"], ["z"], domain="ai.onnx.ml", **classes)
    made = helper.make_map_type_proto(key, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    output = helper.make_value_info("z", helper.make_sequence_type_proto(made))
    return _ml_session(
        ort, node, [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 3])], [output]
    )


@behaviour("ZipMap makes dictionaries with texts as keys")
def zipmap_texts(ort: Any, folder: Path) -> None:
    session = _zipmap(ort, TensorProto.STRING, classlabels_strings=["a", "b", "c"])
    assert session.get_outputs()[0].type == "seq(map(string,tensor(float)))"
    (made,) = session.run(None, {"x": np.array([[1, 0, 3], [44, 23, 11]], np.float32)})
    assert made == [{"a": 1, "b": 0, "c": 3}, {"a": 44, "b": 23, "c": 11}]


@behaviour("ZipMap makes dictionaries with numbers as keys")
def zipmap_numbers(ort: Any, folder: Path) -> None:
    session = _zipmap(ort, TensorProto.INT64, classlabels_int64s=[10, 20, 30])
    assert session.get_outputs()[0].type == "seq(map(int64,tensor(float)))"
    (made,) = session.run(None, {"x": np.array([[1, 0, 3]], np.float32)})
    assert made == [{10: 1, 20: 0, 30: 3}]


def _vectorizer(ort: Any) -> Any:
    node = helper.make_node(
        "DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", int64_vocabulary=[0, 1, 2]
    )
    given = helper.make_map_type_proto(
        TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    )
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])
    return _ml_session(ort, node, [helper.make_value_info("x", given)], [output])


@behaviour("a dictionary is a map, with Python's or numpy's numbers; its input has no shape")
def dictionaries(ort: Any, folder: Path) -> None:
    session = _vectorizer(ort)
    assert (session.get_inputs()[0].type, session.get_inputs()[0].shape) == (
        "map(int64,tensor(float))",
        [],
    )
    plain = {0: 25.0, 1: 5.5, 2: 0.0}
    for given in (
        plain,
        {np.int64(key): np.float32(value) for key, value in plain.items()},
        {np.int64(key): np.float64(value) for key, value in plain.items()},
        {np.int32(key): np.float64(value) for key, value in plain.items()},
    ):
        same(session.run(None, {"x": given})[0], [[25, 5.5, 0]])


@behaviour("a dictionary with a key of another type is an error that says so")
def dictionary_with_wrong_key(ort: Any, folder: Path) -> None:
    session = _vectorizer(ort)
    raises(RuntimeError, "key", lambda: session.run(None, {"x": {0: 25.0, "a": 5.6}}))


@behaviour("labels may be fed as numpy's texts or as objects")
def label_encoder(ort: Any, folder: Path) -> None:
    node = helper.make_node(
        "LabelEncoder",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        keys_strings=["3", "4"],
        values_int64s=[2, 3],
    )
    given = helper.make_tensor_value_info("x", TensorProto.STRING, [1, 1])
    session = _ml_session(
        ort, node, [given], [helper.make_tensor_value_info("y", TensorProto.INT64, [1, 1])]
    )
    for array in (
        np.array([["4"]]),
        np.array(["4"], ndmin=2),
        np.array(["4"], ndmin=2, dtype=object),
    ):
        assert session.run(["y"], {"x": array})[0].tolist() == [[3]]


@behaviour(
    "a tree with one leaf, of a positive or negative weight, adds its base value before the"
    " logistic"
)
def tree_of_one_leaf(ort: Any, folder: Path) -> None:
    for weight in (0.0, -0.1):
        node = helper.make_node(
            "TreeEnsembleClassifier", ["x"], ["label", "probabilities"], domain="ai.onnx.ml", base_values=[-0.405],
            nodes_treeids=[0], nodes_nodeids=[0], nodes_featureids=[0], nodes_values=[0.0], nodes_modes=["LEAF"],
            nodes_truenodeids=[0], nodes_falsenodeids=[0], nodes_missing_value_tracks_true=[0], nodes_hitrates=[1.0],
            class_treeids=[0], class_nodeids=[0], class_ids=[0], class_weights=[weight], classlabels_int64s=[0, 1],
            post_transform="LOGISTIC",
        )  # fmt: skip
        outputs = [
            helper.make_tensor_value_info("label", TensorProto.INT64, [None]),
            helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [None, 2]),
        ]
        given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 3])
        found = _ml_session(ort, node, [given], outputs).run(
            None, {"x": np.zeros((1, 3), np.float32)}
        )
        np.testing.assert_allclose(found[1][0][1], 1 / (1 + np.exp(0.405 - weight)), atol=1e-5)


@behaviour("a tree with one split sends a smaller value to its true branch")
def tree_of_one_split(ort: Any, folder: Path) -> None:
    node = helper.make_node(
        "TreeEnsembleClassifier", ["x"], ["label", "probabilities"], domain="ai.onnx.ml", base_values=[-0.405],
        nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[0, 0, 0], nodes_values=[0.5, 0.0, 0.0],
        nodes_modes=["BRANCH_LT", "LEAF", "LEAF"], nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
        nodes_missing_value_tracks_true=[0, 0, 0], nodes_hitrates=[1.0, 1.0, 1.0], class_treeids=[0, 0],
        class_nodeids=[1, 2], class_ids=[0, 0], class_weights=[0.3, -0.3], classlabels_int64s=[0, 1],
        post_transform="LOGISTIC",
    )  # fmt: skip
    outputs = [
        helper.make_tensor_value_info("label", TensorProto.INT64, [None]),
        helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [None, 2]),
    ]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 3])
    found = _ml_session(ort, node, [given], outputs).run(
        None, {"x": np.array([[0.1, 0, 0]], np.float32)}
    )
    np.testing.assert_allclose(found[1][0][1], 1 / (1 + np.exp(0.105)), atol=1e-5)


@behaviour("a tree with thresholds of double precision compares in double precision")
def tree_of_doubles(ort: Any, folder: Path) -> None:
    doubles = {
        "nodes_values_as_tensor": [1.7999999523162842, 0.0, 0.0],
        "target_weights_as_tensor": [0.25, 0.75],
    }
    node = helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml",
        nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[0, 0, 0],
        nodes_modes=["BRANCH_LT", "LEAF", "LEAF"], nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
        target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 0], n_targets=1,
        **{name: onnx.numpy_helper.from_array(np.array(values), name) for name, values in doubles.items()},
    )  # fmt: skip
    given = helper.make_tensor_value_info("x", TensorProto.DOUBLE, [None, 1])
    session = _ml_session(
        ort, node, [given], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 1])]
    )
    rows = np.array([[1.7999999523162842], [1.7999999523], [1.79999995232]])
    (found,) = session.run(None, {"x": rows})
    assert found.tolist() == [[0.75], [0.25], [0.75]]


# --- narrow types ---------------------------------------------------------------------------------


@behaviour(
    "an OrtValue of bfloat16 has its element type, and gives the same array back", since="1.33"
)
def bfloat16_value(ort: Any, folder: Path) -> None:
    data = np.array([1, -2.5, 0, 3.5, 42], ml_dtypes.bfloat16)
    value = ort.OrtValue.ortvalue_from_numpy(data)
    assert (value.is_tensor(), value.element_type(), list(value.shape())) == (
        True,
        TensorProto.BFLOAT16,
        [5],
    )
    assert value.numpy().dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(value.numpy(), data)


@behaviour("an OrtValue of bfloat16 can be made from a shape", since="1.33")
def bfloat16_value_of_shape(ort: Any, folder: Path) -> None:
    value = ort.OrtValue.ortvalue_from_shape_and_type([2, 3], ml_dtypes.bfloat16)
    assert (value.element_type(), list(value.shape())) == (TensorProto.BFLOAT16, [2, 3])
    assert (value.numpy().dtype, value.numpy().shape) == (ml_dtypes.bfloat16, (2, 3))


@behaviour("bfloat16 goes through a session and stays bfloat16", since="1.33")
def bfloat16_run(ort: Any, folder: Path) -> None:
    x = np.array([0, 1.5, -2.75, 8], ml_dtypes.bfloat16)
    (y,) = session_of(ort, "g (bfloat16[N] x) => (bfloat16[N] y) { y = Identity(x) }").run(
        None, {"x": x}
    )
    assert y.dtype.type is ml_dtypes.bfloat16
    np.testing.assert_array_equal(y, x)


@behaviour("casts to float8 saturate, in each of its four forms")
def float8_casts(ort: Any, folder: Path) -> None:
    given = np.array([0, 1e-7, 1e-3, 1e-2, 1e-1, 1, 10, 100, 1000, 1e5, np.inf, np.nan], np.float32)
    largest = {17: 448, 18: 240, 19: 57344, 20: 57344}
    for number, most in largest.items():
        text = (
            f"g (float[N] x) => (float[N] y) {{ t = Cast <to = {number}> (x) y = Cast <to = 1>"
            " (t) }"
        )
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        (found,) = session_of(ort, text, options).run(None, {"x": given})
        assert found[9] == most
        assert found.dtype == np.float32
        np.testing.assert_allclose(found[4:8], given[4:8], rtol=0.1)
        assert np.isnan(found[11])


# --- OrtValue -------------------------------------------------------------------------------------


@behaviour("an OrtValue says its device, shape, type and size, and gives its array")
def ort_value(ort: Any, folder: Path) -> None:
    value = ort.OrtValue.ortvalue_from_numpy(X)
    assert (value.device_name(), value.shape(), value.data_type()) == (
        "cpu",
        [3, 2],
        "tensor(float)",
    )
    assert (value.is_tensor(), value.tensor_size_in_bytes()) == (True, 24)
    same(value.numpy(), X)


@behaviour("an OrtValue may be a feed, and is whole after the run")
def ort_value_as_feed(ort: Any, folder: Path) -> None:
    value = ort.OrtValue.ortvalue_from_numpy(X)
    same(session_of(ort, MUL).run(["y"], {"x": value})[0], X * X)
    same(value.numpy(), X)


@behaviour("an OrtValue can be made with ONNX's number of its type")
def ort_value_with_onnx_type(ort: Any, folder: Path) -> None:
    value = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(X, TensorProto.FLOAT)
    assert (value.is_tensor(), value.element_type(), value.shape()) == (
        True,
        TensorProto.FLOAT,
        [3, 2],
    )


@behaviour("run_with_ort_values takes and gives OrtValues")
def run_with_ort_values(ort: Any, folder: Path) -> None:
    (made,) = session_of(ort, MUL).run_with_ort_values(
        ["y"], {"x": ort.OrtValue.ortvalue_from_numpy(X)}
    )
    assert isinstance(made, ort.OrtValue)
    same(made.numpy(), X * X)


@behaviour("numpy takes an OrtValue for an array, without a copy unless the type changes")
def array_protocol(ort: Any, folder: Path) -> None:
    for array in (X, np.array([1, 2, 3]), np.array([True, False])):
        value = ort.OrtValue.ortvalue_from_numpy(array)
        found = np.asarray(value)
        assert (found.dtype, value.data_ptr()) == (array.dtype, found.ctypes.data)
        np.testing.assert_array_equal(np.array(value), array)
    value = ort.OrtValue.ortvalue_from_numpy(X)
    assert np.asarray(value, dtype=np.float32).ctypes.data == value.data_ptr()
    assert np.asarray(value, dtype=np.float64).dtype == np.float64


@behaviour("DLPack hands the memory on, from the CPU as device (1, 0)")
def dlpack(ort: Any, folder: Path) -> None:
    value = ort.OrtValue.ortvalue_from_numpy(X)
    assert tuple(value.__dlpack_device__()) == (1, 0)
    taken = ort.OrtValue.from_dlpack(value.__dlpack__())
    assert taken.data_ptr() == value.data_ptr()
    same(taken.numpy(), X)


@behaviour("DLPack takes any object that offers it: numpy's arrays, other OrtValues")
def dlpack_objects(ort: Any, folder: Path) -> None:
    array = np.array([1, 2, 3, 4], np.float32)
    same(ort.OrtValue.from_dlpack(array).numpy(), array)
    value = ort.OrtValue.ortvalue_from_numpy(array)
    assert ort.OrtValue.from_dlpack(value).data_ptr() == value.data_ptr()


@behaviour("DLPack keeps booleans booleans, and bytes bytes")
def dlpack_booleans(ort: Any, folder: Path) -> None:
    for array in (np.array([True, False, True]), np.array([1, 2, 255], np.uint8)):
        found = ort.OrtValue.from_dlpack(ort.OrtValue.ortvalue_from_numpy(array)).numpy()
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)


@behaviour("DLPack takes tensors without elements")
def dlpack_empty(ort: Any, folder: Path) -> None:
    for shape in ((1, 8, 0, 128), (0,), (0, 4), (4, 0)):
        value = ort.OrtValue.from_dlpack(
            ort.OrtValue.ortvalue_from_numpy(np.zeros(shape, np.float32))
        )
        assert tuple(value.shape()) == shape


@behaviour("an OrtDevice says its number, kind, maker and memory")
def ort_device(ort: Any, folder: Path) -> None:
    cpu = ort.OrtDevice.make("cpu", 0)
    assert (cpu.device_id(), cpu.device_type(), cpu.device_mem_type()) == (0, 0, 0)
    assert cpu.device_vendor_id() == ort.OrtDeviceVendorId.NONE
    assert (
        ort.OrtDevice.make("cuda", 0).device_vendor_id() == ort.OrtDeviceVendorId.NVIDIA == 0x10DE
    )


# --- sparse tensors -------------------------------------------------------------------------------


def _coo(ort: Any, values: Any) -> Any:
    places = np.array([3, 5, 15], np.int64)
    return ort.SparseTensor.sparse_coo_from_numpy(
        [9, 9], values, places, ort.OrtDevice.make("cpu", 0)
    )


@behaviour(
    "a sparse tensor of single places says its form, shape, type and device, and gives arrays to"
    " read"
)
def sparse_coo(ort: Any, folder: Path) -> None:
    tensor = _coo(ort, np.array([1, 2, 3], np.float32))
    assert tensor.format() == ort.OrtSparseFormat.ORT_SPARSE_COO
    assert (list(tensor.dense_shape()), tensor.data_type(), tensor.device_name()) == (
        [9, 9],
        "sparse_tensor(float)",
        "cpu",
    )
    values, places = tensor.values(), tensor.as_coo_view().indices()
    gc.collect()
    assert (values.tolist(), places.tolist()) == ([1, 2, 3], [3, 5, 15])
    assert not values.flags.writeable
    assert not places.flags.writeable


@behaviour("a sparse tensor becomes an OrtValue and comes back")
def sparse_ort_value(ort: Any, folder: Path) -> None:
    value = ort.OrtValue.ort_value_from_sparse_tensor(_coo(ort, np.array([1, 2, 3], np.float32)))
    back = value.as_sparse_tensor()
    assert (back.values().tolist(), back.as_coo_view().indices().tolist()) == (
        [1, 2, 3],
        [3, 5, 15],
    )


@behaviour("a sparse tensor may hold texts")
def sparse_texts(ort: Any, folder: Path) -> None:
    tensor = _coo(ort, np.array(["xyz", "yxz", "zyx"]))
    assert (tensor.data_type(), list(tensor.values())) == (
        "sparse_tensor(string)",
        ["xyz", "yxz", "zyx"],
    )


@behaviour("a sparse tensor by rows has inner and outer places")
def sparse_csr(ort: Any, folder: Path) -> None:
    inner, outer = np.array([1, 1, 1], np.int64), np.array([0, 1, 2, 3, 3, 3, 3, 3, 3, 3], np.int64)
    tensor = ort.SparseTensor.sparse_csr_from_numpy(
        [9, 9], np.array([1, 2, 3], np.float32), inner, outer, ort.OrtDevice.make("cpu", 0)
    )
    assert tensor.format() == ort.OrtSparseFormat.ORT_SPARSE_CSRC
    view = tensor.as_csrc_view()
    np.testing.assert_array_equal(view.inner(), inner)
    np.testing.assert_array_equal(view.outer(), outer)
    assert not view.inner().flags.writeable


@behaviour("a sparse tensor does not go to a GPU that is not there (RuntimeError)")
def sparse_to_cuda(ort: Any, folder: Path) -> None:
    tensor = _coo(ort, np.array([1, 2, 3], np.float32))
    raises(RuntimeError, "", lambda: tensor.to_cuda(ort.OrtDevice.make("cuda", 0)))


def _sparse_weight() -> onnx.SparseTensorProto:
    values = helper.make_tensor("w", TensorProto.FLOAT, [3], [1.5, 0.5, 1.0])
    places = helper.make_tensor("places", TensorProto.INT64, [3], [2, 3, 5])
    return helper.make_sparse_tensor(values, places, [3, 3])


@behaviour("a sparse initializer that is an output comes out sparse")
def sparse_output(ort: Any, folder: Path) -> None:
    graph = helper.make_graph(
        [], "g", [], [helper.make_sparse_tensor_value_info("w", TensorProto.FLOAT, [3, 3])]
    )
    graph.sparse_initializer.append(_sparse_weight())
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
    (made,) = ort.InferenceSession(model.SerializeToString(), providers=CPU).run_with_ort_values(
        ["w"], {}
    )
    sparse = made.as_sparse_tensor()
    assert (list(sparse.dense_shape()), sparse.values().tolist()) == ([3, 3], [1.5, 0.5, 1.0])


@behaviour("a sparse tensor times a dense one is dense (com.microsoft.SparseToDenseMatMul)")
def sparse_product(ort: Any, folder: Path) -> None:
    node = helper.make_node("SparseToDenseMatMul", ["a", "b"], ["y"], domain="com.microsoft")
    inputs = [
        helper.make_sparse_tensor_value_info("a", TensorProto.FLOAT, [2, 2]),
        helper.make_tensor_value_info("b", TensorProto.FLOAT, [2, 2]),
    ]
    graph = helper.make_graph(
        [node], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 2])]
    )
    imports = [helper.make_opsetid("", 15), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=CPU)
    sparse = ort.SparseTensor.sparse_coo_from_numpy(
        [2, 2],
        np.array([2.0], np.float32),
        np.array([[0, 1]], np.int64),
        ort.OrtDevice.make("cpu", 0),
    )
    dense = ort.OrtValue.ortvalue_from_numpy(np.array([[1, 2], [3, 4]], np.float32))
    (made,) = session.run_with_ort_values(
        ["y"], {"a": ort.OrtValue.ort_value_from_sparse_tensor(sparse), "b": dense}
    )
    assert made.numpy().tolist() == [[6, 8], [0, 0]]


# --- IOBinding ------------------------------------------------------------------------------------


@behaviour("an array is bound as input, an output is left to the run, and copied out")
def bound_array(ort: Any, folder: Path) -> None:
    session = session_of(ort, MUL)
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("y")
    binding.synchronize_inputs()
    session.run_with_iobinding(binding)
    binding.synchronize_outputs()
    same(binding.copy_outputs_to_cpu()[0], X * X)


_NUMERIC = (
    *("float16", "float32", "float64", "bool"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)


@behaviour("inputs of every numeric type can be bound")
def bound_types(ort: Any, folder: Path) -> None:
    names = [
        "float32",
        "float64",
        "int32",
        "uint32",
        "int64",
        "uint64",
        "int16",
        "uint16",
        "int8",
        "uint8",
        "float16",
        "bool",
    ]
    for name in names:
        x = np.arange(8).reshape(-1, 2).astype(name)
        number = helper.np_dtype_to_tensor_dtype(x.dtype)
        graph = helper.make_graph(
            [helper.make_node("Identity", ["x"], ["y"])],
            "g",
            [helper.make_tensor_value_info("x", number, [None, 2])],
            [helper.make_tensor_value_info("y", number, [None, 2])],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        session = ort.InferenceSession(model.SerializeToString(), providers=CPU)
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(x))
        binding.bind_output("y")
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(binding.get_outputs()[0].numpy(), x)


@behaviour("memory is bound by its address, as input and as output")
def bound_addresses(ort: Any, folder: Path) -> None:
    session = session_of(ort, MUL)
    given, made = (
        ort.OrtValue.ortvalue_from_numpy(X),
        ort.OrtValue.ortvalue_from_shape_and_type([3, 2], np.float32),
    )
    binding = session.io_binding()
    binding.bind_input("x", "cpu", 0, np.float32, [3, 2], given.data_ptr())
    binding.bind_output("y", "cpu", 0, np.float32, [3, 2], made.data_ptr())
    session.run_with_iobinding(binding)
    same(made.numpy(), X * X)
    same(binding.copy_outputs_to_cpu()[0], X * X)


@behaviour("outputs are told again as often as they are asked for, and follow a new input")
def bound_again(ort: Any, folder: Path) -> None:
    session = session_of(ort, MUL)
    binding = session.io_binding()
    binding.bind_output("y", "cpu")
    for given in (X, 2 * X):
        value = ort.OrtValue.ortvalue_from_numpy(given)
        binding.bind_input("x", "cpu", 0, np.float32, [3, 2], value.data_ptr())
        session.run_with_iobinding(binding)
        for _ in range(2):
            (made,) = binding.get_outputs()
            assert made.device_name() == "cpu"
            same(made.numpy(), given * X)


@behaviour("OrtValues are bound as input and output, and the next run writes into the same output")
def bound_ort_values(ort: Any, folder: Path) -> None:
    session = session_of(ort, MUL)
    made = ort.OrtValue.ortvalue_from_shape_and_type([3, 2], np.float32)
    binding = session.io_binding()
    binding.bind_ortvalue_output("y", made)
    for given in (X, 2 * X):
        binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(given))
        session.run_with_iobinding(binding)
        same(made.numpy(), given * X)
