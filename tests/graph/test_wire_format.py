"""Cutting weights out of a serialized model."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from ortpkg.graph.wire_format import WireFormatError, cut_weights
from tests.graph.model_factories import parse


def model_with_weights() -> onnx.ModelProto:
    model = parse("g (float[4] x) => (float[4] y) { y = Add(x, w) }")
    for name, size in (("small", 3), ("w", 4096), ("v", 1000)):
        model.graph.initializer.append(
            numpy_helper.from_array(np.arange(size, dtype=np.float32), name)
        )
    model.doc_string = "kept"
    return model


def test_cuts_big_raw_data_and_tells_where_it_lies() -> None:
    model = model_with_weights()
    data = model.SerializeToString()

    cut = cut_weights(memoryview(data), smallest_nbytes=1024)

    assert list(cut.spans) == [1, 2]
    for index, (offset, nbytes) in cut.spans.items():
        assert data[offset : offset + nbytes] == model.graph.initializer[index].raw_data
    for index in cut.spans:
        model.graph.initializer[index].ClearField("raw_data")
    assert onnx.ModelProto.FromString(cut.message()) == model


def test_leaves_a_message_without_big_weights_as_it_is() -> None:
    data = model_with_weights().SerializeToString()

    assert cut_weights(memoryview(data), smallest_nbytes=1 << 20).message() == data


def test_every_truncation_is_an_error_or_a_shorter_message() -> None:
    data = model_with_weights().SerializeToString()
    refused = 0
    for length in range(0, len(data), 97):
        try:
            cut = cut_weights(memoryview(data)[:length])
        except WireFormatError:
            refused += 1
        else:
            assert all(offset + nbytes <= length for offset, nbytes in cut.spans.values())
    assert refused > 100


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x3a\x7f\x00", "ends past the end"),
        (b"\xff" * 12, "does not end"),
        (b"\x3b", "wire type 3"),
        (b"\x00\x00", "field number 0"),
        (b"\x3a\x02\x2a\x05", "ends past the end"),
    ],
)
def test_refuses_malformed_messages(data: bytes, message: str) -> None:
    with pytest.raises(WireFormatError, match=message):
        cut_weights(memoryview(data))
