from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ortpkg.compiler.machine_code.program import Program
from ortpkg.compiler.machine_code.program_format import dump_program, load_program
from ortpkg.foundations.errors import EpContextError
from tests.machine_code.programs import programs, small_program

DUMPED = dump_program(small_program())


def changed(path: str, value: Any) -> bytes:
    document = json.loads(DUMPED)
    *parents, last = path.split("/")
    place = document
    for key in parents:
        place = place[int(key) if isinstance(place, list) else key]
    place[int(last) if isinstance(place, list) else last] = value
    return json.dumps(document).encode()


def nested(levels: int) -> Any:
    size: Any = [[1, "batch"]]
    for _ in range(levels):
        size = [[1, ["max", size, 2]]]
    return size


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(program=programs())
def test_a_program_is_read_as_it_was_written(program: Program) -> None:
    dumped = dump_program(program)
    assert load_program(dumped) == program
    assert dump_program(load_program(dumped)) == dumped


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"[]", "is not a JSON object"),
        (b"{", "is not valid JSON at line 1"),
        (b"\xff", "is not UTF-8 text"),
        (b'{"form": 1, "form": 1}', "key 'form' occurs more than once"),
        (b"[" * 100, "is nested deeper than 64 levels"),
        (b"{}", "wrong at '': it lacks the key 'form'"),
        (changed("form", 1), "wrong at '/form': it is 1; this version of ortpkg reads 3"),
        (changed("more", 2), "wrong at '': it has the unknown key 'more'"),
        (changed("form", True), "wrong at '/form': it is no whole number"),
        (changed("target", 1), "wrong at '/target': it is no text"),
        (changed("is_checked", 1), "wrong at '/is_checked': it is neither true nor false"),
        (changed("functions", []), "wrong at '/functions': it is no object"),
        (changed("functions/add", "0"), "wrong at '/functions/add': it is no whole number"),
        (changed("steps", {}), "wrong at '/steps': it is no list"),
        (changed("steps/1", 7), "wrong at '/steps/1': it is no object"),
        (changed("steps/1/chunk", 1.5), "wrong at '/steps/1/chunk': it is no whole number"),
        (changed("steps/0/conditions", [{"size": "batch", "least": 0, "most": None}]), "wrong at '/steps/0/conditions/0/size': it is no size"),
        (changed("steps/0/conditions", [{"size": 1, "least": None, "most": None}]), "wrong at '/steps/0/conditions/0/least': it is no whole number"),
        (changed("steps/0/conditions", [{"size": 1, "least": -1, "most": None}]), "the condition of step 0 is -1, not a size from 0 to"),
        (changed("steps/0/buffers/0/space", "disk"), "wrong at '/steps/0/buffers/0/space': it is 'disk', not one of input, output, report, constant, arena"),
        (changed("reports", [{"node": 1, "size": 2}]), "wrong at '/reports/0/node': it is no text"),
        (changed("reports", [{"node": "n"}]), "wrong at '/reports/0': it lacks the key 'size'"),
        (changed("inputs/0/element_type", "FLOAT"), "wrong at '/inputs/0/element_type': it is 'FLOAT', which is no element type"),
        (changed("inputs/0/element_type", "float32"), "it is 'float32', which is no element type"),
        (changed("steps/0/kernel", "\x1b[2J"), r"calls '\x1b[2J', which is no kernel"),
        (changed("scratch_nbytes", []), "wrong at '/scratch_nbytes': it is no size: a number, or a list of 1 to 24 terms"),
        (changed("scratch_nbytes", [[]]), "has a term that is no list of a coefficient and at most 8 factors"),
        (changed("scratch_nbytes", [["batch"]]), "has a term that does not begin with a whole number"),
        (changed("scratch_nbytes", [[1, 5]]), "has a factor that is neither a symbol's name nor an operation"),
        (changed("scratch_nbytes", [[1, ""]]), "has a symbol whose name is no text of 1 to 4096 characters"),
        (changed("scratch_nbytes", [[1, ["pow", 1, 2]]]), "has the unknown operation 'pow'; known are broadcast, floor"),
        (changed("scratch_nbytes", [[1, ["floor", 1, 0]]]), "divides by 0"),
        (changed("scratch_nbytes", [[1, ["broadcast", 3, 2]]]), "sizes 3 and 2 do not broadcast"),
        (changed("scratch_nbytes", [[1 << 80, "batch"]]), "is a size that is too large to compute with"),
        (changed("scratch_nbytes", nested(13)), "is a size that is too large to compute with"),
        (changed("scratch_nbytes", nested(40)), "is nested deeper than 64 levels"),
        (changed("scratch_nbytes", [[1, "other"]]), "the scratch memory needs the size 'other'"),
        (changed("steps/0/sizes", [1 << 70]), "step 0 has the size 1180591620717411303424, which takes more than 64 bits"),
    ],
)  # fmt: skip
def test_what_is_no_program_is_refused_with_its_place(data: bytes, message: str) -> None:
    with pytest.raises(EpContextError) as caught:
        load_program(data)
    assert message in str(caught.value)
    assert str(caught.value).startswith("the program of the machine code")


@settings(max_examples=150, deadline=None)
@given(
    place=st.integers(0, len(DUMPED) - 1),
    count=st.integers(0, 4),
    bits=st.binary(max_size=4),
)
def test_changed_bytes_give_a_program_or_a_typed_error(place: int, count: int, bits: bytes) -> None:
    try:
        load_program(DUMPED[:place] + bits + DUMPED[place + count :])
    except EpContextError:
        return
