"""What a model takes once it is parsed is counted before it is: bombs stay within the limit."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ortpkg.foundations.errors import LimitExceededError, ModelFileError
from ortpkg.graph.load_control import LoadControl, load_limits
from ortpkg.graph.message_cost import charge_message
from ortpkg.graph.model_file import read_model_file
from ortpkg.graph.model_limits import ModelLimits
from ortpkg.graph.wire_format import length_delimited_tag, varint
from tests.graph.model_factories import parse

LIMIT_NBYTES = 40_000_000
#: Each bomb takes more where it is parsed first and counted then.
ALLOWED_NBYTES = LIMIT_NBYTES * 12 // 10 + 100_000_000
MODEL = parse("g (float[1] x) => (float[1] y) { y = Relu(x) }").SerializeToString()
_LOADS = """
import json, sys
from ortpkg.foundations.errors import LimitExceededError
from ortpkg.foundations.host.memory import peak_memory_nbytes
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import SessionOptions

limit, *paths = sys.argv[1:]
options = SessionOptions(memory_limit_nbytes=int(limit))
InferenceSession(paths.pop(0), options, ["cpu"]).close()
held = peak_memory_nbytes()
refused = []
for path in paths:
    try:
        InferenceSession(path, options, ["cpu"])
    except LimitExceededError as error:
        refused.append(error.limit)
print(json.dumps([refused, held and peak_memory_nbytes() - held]))
"""


def message(number: int, *parts: bytes) -> bytes:
    """Field ``number``, which holds ``parts``."""
    body = b"".join(parts)
    return length_delimited_tag(number) + varint(len(body)) + body


def number_field(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


TENSOR_TYPE = message(1, number_field(1, 1), message(2, message(1, number_field(1, 1))))
OUTPUTS = message(12, message(1, b"o"), message(2, TENSOR_TYPE)) * 500_000
EMPTY_NODES = message(1) * 2_000_000
EMPTY_ATTRIBUTES = message(1, message(4, b"Relu"), message(5) * 2_000_000)
TINY_NUMBERS = message(
    1, message(4, b"Relu"), message(5, number_field(20, 7), message(8, b"\1" * 12_000_000))
)
GRAPHS = message(1, message(4, b"If"), message(5, number_field(20, 10), message(11) * 300_000))
BOMBS = {
    "outputs": message(7, OUTPUTS),
    "nodes": message(7, EMPTY_NODES),
    "attributes": message(7, EMPTY_ATTRIBUTES),
    "numbers": message(7, TINY_NUMBERS),
    "graphs": message(7, GRAPHS),
    "metadata": message(14, message(1, b"k"), message(2, b"v")) * 1_500_000,
    "text": message(6, b"a" * 160_000_000),
    "letters": message(6, b"a" * 25_000_000, "\U0001f600".encode()),
}


class CountingControl(LoadControl):
    """One that says what was charged."""

    def __init__(self) -> None:
        super().__init__(memory_limit_nbytes=None, timeout_s=None)
        self.memory_limit_nbytes = 1  # what is small beside the limit is not looked into

    def charge(self, nbytes: int) -> None:
        self.charged_nbytes += nbytes


def charged_nbytes(data: bytes) -> int:
    with load_limits(control := CountingControl()):
        charge_message(data)
    return control.charged_nbytes


@pytest.fixture
def bombs(tmp_path: Path) -> Iterator[list[Path]]:
    """An honest model, then the bombs, which are gone from the disk afterwards."""
    paths = [tmp_path / f"{name}.onnx" for name in ("honest", *BOMBS)]
    for path, added in zip(paths, (b"", *BOMBS.values()), strict=True):
        path.write_bytes(MODEL + added)
    yield paths
    for path in paths:
        path.unlink()


def test_no_bomb_takes_more_than_its_limit_allows(bombs: list[Path]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LOADS, str(LIMIT_NBYTES), *map(str, bombs)],
        capture_output=True,
        text=True,
        check=True,
    )
    refused, grown_nbytes = json.loads(done.stdout)
    assert refused == ["memory"] * len(BOMBS)
    assert grown_nbytes is None or grown_nbytes < ALLOWED_NBYTES


@pytest.mark.parametrize(
    ("part", "least_nbytes"),
    [
        pytest.param(message(7, message(1)), 152, id="node"),
        pytest.param(message(7, message(1, message(5))), 200, id="attribute"),
        pytest.param(message(7, message(5)), 168, id="constant"),
        pytest.param(message(7, message(12)), 80, id="value"),
        pytest.param(message(7, message(1, message(1, b"x"))), 16 + 50, id="name"),
        pytest.param(message(7, message(5, message(7, b"\1"))), 20 + 8, id="number"),
        pytest.param(message(14), 64, id="entry"),
        pytest.param(message(25), 160, id="function"),
    ],
)
def test_counts_what_a_part_was_measured_to_take(part: bytes, least_nbytes: int) -> None:
    """Measured on a million, in protobuf 7; without what the parts around it take."""
    assert charged_nbytes(part * 100_000) >= least_nbytes * 100_000


def test_letters_beyond_ascii_count_as_what_they_take() -> None:
    ascii_text, wide_text = b"a" * 300_000, b"a" * 299_996 + "\U0001f600".encode()
    more_nbytes = charged_nbytes(message(6, wide_text)) - charged_nbytes(message(6, ascii_text))
    assert more_nbytes == 4 * 300_000


def test_a_small_message_is_not_looked_into() -> None:
    assert charged_nbytes(MODEL) == 0


@pytest.mark.parametrize("memory_limit_nbytes", [None, 1 << 40])
def test_nothing_is_looked_into_that_cannot_pass_the_limit(memory_limit_nbytes: int | None) -> None:
    control = LoadControl(memory_limit_nbytes=memory_limit_nbytes, timeout_s=None)
    with load_limits(control):
        charge_message(b"\xff" * 1_000_000)


@pytest.mark.parametrize("damaged", [b"\x3a\x04\x0a\x7f\x00\x00", message(7, b"\x0b")])
def test_what_is_no_message_is_no_model(damaged: bytes) -> None:
    control = LoadControl(memory_limit_nbytes=LIMIT_NBYTES, timeout_s=None)
    data = message(6, b"a" * 500_000) + damaged
    with (
        load_limits(control),
        pytest.raises(ModelFileError, match="the model is not an ONNX model"),
    ):
        read_model_file(data, limits=ModelLimits())


def test_messages_nested_deeper_than_protobuf_reads_are_no_model() -> None:
    nested = b""
    for _ in range(120):
        nested = message(1, message(5, message(6, nested)))
    control = LoadControl(memory_limit_nbytes=LIMIT_NBYTES, timeout_s=None)
    data = message(6, b"a" * 500_000) + message(7, nested)
    with load_limits(control), pytest.raises(ModelFileError, match="deeper than 100 levels"):
        read_model_file(data, limits=ModelLimits())


def test_what_is_beside_a_big_weight_counts_before_it_is_copied() -> None:
    weight = message(5, message(9, b"\0" * 4096), message(12, b"a" * 100_000_000))
    control = LoadControl(memory_limit_nbytes=LIMIT_NBYTES, timeout_s=None)
    with load_limits(control), pytest.raises(LimitExceededError, match=r"take 200\.\d MB"):
        read_model_file(message(7, weight), limits=ModelLimits())
