"""Constants from TensorProtos: every type and storage, and every way in which one can be wrong."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ortpkg.foundations.errors import ModelFileError, ModelNotFoundError
from ortpkg.graph.external_data import ExternalDataFolder
from ortpkg.graph.initializers import MappedInitializer, SparseInitializer, TensorReader
from ortpkg.graph.model_limits import ModelLimits
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.onnx_writer import inline_tensor
from ortpkg.graph.types import ElementType, numpy_dtype
from tests.graph.model_factories import external_tensor, parse, save

READER = TensorReader(folder=None, limits=ModelLimits())
NUMBERS = [kind for kind in ElementType if kind not in (ElementType.UNDEFINED, ElementType.STRING)]


def sample(kind: ElementType) -> Any:
    """Five elements, an odd count for the packed types, whose bit patterns differ."""
    if kind is ElementType.BOOL:
        return np.array([True, False, True, True, False])
    if kind is ElementType.FLOAT8E8M0:
        return np.array([1, 2, 4, 8, 0.5]).astype(numpy_dtype(kind))
    if kind.name.startswith("U"):
        return np.array([0, 1, 2, 3, 1]).astype(numpy_dtype(kind))
    if kind is ElementType.INT2:
        return np.array([0, 1, -1, -2, 1]).astype(numpy_dtype(kind))
    return np.array([0, 1, -1, 2, -2]).astype(numpy_dtype(kind))


@pytest.mark.parametrize("kind", NUMBERS, ids=lambda kind: kind.name)
def test_raw_data_of_every_type_reads_as_onnx_reads_it(kind: ElementType) -> None:
    tensor = numpy_helper.from_array(sample(kind).reshape(5, 1), "w")
    assert tensor.HasField("raw_data")

    array = READER.initializer(tensor).numpy()

    assert array.dtype == numpy_dtype(kind)
    assert array.shape == (5, 1)
    assert array.tobytes() == numpy_helper.to_array(tensor).tobytes() == sample(kind).tobytes()
    assert not array.flags.writeable


@pytest.mark.parametrize("kind", NUMBERS, ids=lambda kind: kind.name)
def test_typed_fields_of_every_type_read_as_onnx_reads_them(kind: ElementType) -> None:
    tensor = helper.make_tensor(
        "w", int(kind), [5], sample(kind).astype(np.complex128 if "COMPLEX" in kind.name else float)
    )
    assert not tensor.HasField("raw_data")

    array = READER.initializer(tensor).numpy()

    assert array.tobytes() == numpy_helper.to_array(tensor).tobytes() == sample(kind).tobytes()


@pytest.mark.parametrize("kind", [*NUMBERS, ElementType.STRING], ids=lambda kind: kind.name)
def test_writes_back_what_it_reads(kind: ElementType) -> None:
    array = np.array(["a", "", "é"], dtype=object) if kind is ElementType.STRING else sample(kind)
    tensor = numpy_helper.from_array(array, "w")

    assert inline_tensor(READER.initializer(tensor)) == tensor


def test_reads_strings() -> None:
    tensor = TensorProto(
        name="w", data_type=TensorProto.STRING, dims=[2, 1], string_data=[b"a", "größe".encode()]
    )

    assert READER.initializer(tensor).numpy().tolist() == [["a"], ["größe"]]


def test_takes_any_byte_but_zero_for_true() -> None:
    tensor = TensorProto(name="w", data_type=TensorProto.BOOL, dims=[3], raw_data=b"\x00\x02\xff")

    assert READER.initializer(tensor).numpy().view(np.uint8).tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (
            TensorProto(name="w", data_type=1, dims=[4], raw_data=bytes(12)),
            "has 12 bytes of data; float[4] needs 16",
        ),
        (
            TensorProto(name="w", data_type=1, dims=[4], float_data=[1]),
            "has 1 entries of data; its shape needs 4",
        ),
        (
            TensorProto(name="w", data_type=7, dims=[1], float_data=[1]),
            "has 0 entries of data; its shape needs 1",
        ),
        (
            TensorProto(name="w", data_type=22, dims=[3], int32_data=[1]),
            "has 1 entries of data; its shape needs 2",
        ),
        (TensorProto(name="w", data_type=1, dims=[-4]), "has a negative dimension"),
        (TensorProto(name="w", data_type=1, dims=[10**6, 10**6]), "has 0 entries of data"),
        (TensorProto(name="w", dims=[1]), "has no element type"),
        (TensorProto(name="w", data_type=8, dims=[1], raw_data=b"a"), "holds strings as raw data"),
        (TensorProto(name="w", data_type=1, dims=[1] * 65), "has 65 dimensions"),
    ],
)
def test_refuses_data_that_does_not_fit(tensor: TensorProto, message: str) -> None:
    with pytest.raises(ModelFileError, match=re.escape(f"tensor 'w' {message}")):
        READER.initializer(tensor)


def sparse(values: Any, indices: Any, dims: list[int]) -> onnx.SparseTensorProto:
    return helper.make_sparse_tensor(
        numpy_helper.from_array(np.array(values, np.float32), "s"),
        numpy_helper.from_array(np.array(indices, np.int64)),
        dims,
    )


@pytest.mark.parametrize("indices", [[1, 5], [[0, 1], [1, 2]]], ids=["flat", "coordinates"])
def test_makes_sparse_tensors_dense(indices: Any) -> None:
    dense = READER.sparse_initializer(sparse([3, 4], indices, [2, 3])).numpy()

    assert dense.tolist() == [[0, 3, 0], [0, 0, 4]]


@pytest.mark.parametrize(
    ("values", "indices", "dims", "message"),
    [
        ([3, 4], [1, 6], [2, 3], "has an index outside its shape"),
        ([3, 4], [[0, 1], [2, 0]], [2, 3], "has an index outside its shape"),
        ([3, 4], [-1, 1], [2, 3], "has an index outside its shape"),
        ([3, 4], [1], [2, 3], "has indices of shape [1] for 2 values"),
        ([3], [1], [10**6, 10**6], "would take 4000000000000 bytes when dense"),
    ],
)
def test_refuses_sparse_tensors_that_do_not_fit(
    values: Any, indices: Any, dims: list[int], message: str
) -> None:
    with pytest.raises(ModelFileError, match=re.escape(f"sparse tensor 's' {message}")):
        READER.sparse_initializer(sparse(values, indices, dims))


def test_reads_sparse_initializers_of_a_graph() -> None:
    proto = parse("g (float[2, 3] x) => (float[2, 3] y) { y = Add(x, s) }")
    proto.graph.sparse_initializer.append(sparse([3, 4], [1, 5], [2, 3]))

    initializer = load_model(proto).graph.initializers["s"]

    assert isinstance(initializer, SparseInitializer)
    assert initializer.shape == (2, 3)


# --- external data --------------------------------------------------------------------------------


def reader(folder: Path) -> TensorReader:
    return TensorReader(folder=ExternalDataFolder(folder), limits=ModelLimits())


def test_maps_external_data_without_a_copy(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(np.arange(8, dtype="<f4").tobytes())

    initializer = reader(tmp_path).initializer(external_tensor("w", "w.bin", offset=16, length=16))
    array = initializer.numpy()

    assert array.tolist() == [4, 5, 6, 7]
    assert isinstance(initializer, MappedInitializer)
    assert not array.flags.owndata
    assert initializer.numpy() is array


def test_external_data_at_an_odd_offset_is_aligned_in_memory(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(b"?" + np.arange(4, dtype="<f4").tobytes())

    array = reader(tmp_path).initializer(external_tensor("w", "w.bin", offset=1)).numpy()

    assert array.tolist() == [0, 1, 2, 3]
    assert array.flags.aligned


def test_tensors_share_one_mapping_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(64))
    tensors = reader(tmp_path)

    first, second = (
        tensors.initializer(external_tensor("w", "w.bin", offset=offset)) for offset in (0, 16)
    )

    assert isinstance(first, MappedInitializer)
    assert isinstance(second, MappedInitializer)
    assert first.source is second.source


def test_empty_tensors_may_lie_at_the_end_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(8))

    assert reader(tmp_path).initializer(
        external_tensor("w", "w.bin", offset=8, dims=(0,))
    ).numpy().shape == (0,)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"offset": 4}, "tensor 'w' needs bytes 4 to 20 of 'w.bin', which has only 16"),
        ({"length": 12}, "tensor 'w' has 12 bytes of data; float[4] needs 16"),
        ({"offset": -1}, "has the offset '-1'; a whole number was expected"),
        ({"length": "many"}, "has the length 'many'; a whole number was expected"),
        ({"offset": 1 << 70}, "a whole number was expected"),
    ],
)
def test_refuses_ranges_outside_the_file(
    tmp_path: Path, entries: dict[str, Any], message: str
) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(16))

    with pytest.raises(ModelFileError, match=re.escape(message)):
        reader(tmp_path).initializer(external_tensor("w", "w.bin", **entries))


def test_missing_external_file_names_tensor_and_file(tmp_path: Path) -> None:
    with pytest.raises(
        ModelNotFoundError, match=r"tensor 'w' has its data in 'w\.bin', which is not in"
    ):
        reader(tmp_path).initializer(external_tensor("w", "w.bin"))


def test_refuses_a_folder_for_external_data(tmp_path: Path) -> None:
    (tmp_path / "w.bin").mkdir()

    with pytest.raises(ModelFileError, match="is not a regular file"):
        reader(tmp_path).initializer(external_tensor("w", "w.bin"))


@pytest.mark.parametrize("location", ["../w.bin", "/w.bin", "C:/w.bin", "a/../../w.bin"])
def test_refuses_external_data_outside_the_folder(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(bytes(16))

    with pytest.raises(ModelFileError, match="tensor 'w' names the external file"):
        reader(folder).initializer(external_tensor("w", location))


def test_refuses_symbolic_links_out_of_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(bytes(16))
    try:
        (folder / "w.bin").symlink_to(tmp_path / "w.bin")
    except OSError:
        pytest.skip("symbolic links need a privilege here")

    with pytest.raises(ModelFileError, match="a symbolic link that leaves"):
        reader(folder).initializer(external_tensor("w", "w.bin"))


def test_a_model_from_memory_needs_to_be_told_its_folder(tmp_path: Path) -> None:
    proto = parse("g (float[4] x) => (float[4] y) { y = Add(x, w) }")
    proto.graph.initializer.append(external_tensor("w", "w.bin"))
    (tmp_path / "w.bin").write_bytes(np.ones(4, "<f4").tobytes())

    with pytest.raises(
        ModelFileError,
        match=(
            r"say in which folder it lies \(session\.model_external_initializers_file_folder_path\)"
        ),
    ):
        load_model(proto)
    assert load_model(proto, external_data_folder=tmp_path).graph.initializers[
        "w"
    ].numpy().tolist() == [1, 1, 1, 1]


def test_weights_inside_the_model_file_are_read_on_first_use(tmp_path: Path) -> None:
    weight = np.arange(1000, dtype=np.float32)
    path = save(
        parse("g (float[1000] x) => (float[1000] y) { y = Add(x, w) }", {"w": weight}), tmp_path
    )

    initializer = load_model(path).graph.initializers["w"]

    assert isinstance(initializer, MappedInitializer)
    assert initializer.source.nbytes == path.stat().st_size
    np.testing.assert_array_equal(initializer.numpy(), weight)
    assert initializer.numpy().flags.aligned
