from __future__ import annotations

import mmap
import os
from pathlib import Path

import numpy as np
import pytest

from ortpkg.compiler.machine_code.program_parts import dump_parts, load_parts, read_program
from ortpkg.compiler.machine_code.thread_team import ThreadTeam
from ortpkg.foundations.errors import CompileError, EpContextError
from tests.machine_code.native_programs import CODE, WEIGHTS, Context, chain, rows_of

PROGRAM = chain(3)
PARTS = dump_parts(PROGRAM, CODE.data, {"w": WEIGHTS.tobytes(), "unused": b"x"})


def test_a_program_is_loaded_from_its_parts_and_runs() -> None:
    assert list(PARTS) == ["program", "code", "w"]
    assert read_program(PARTS) == PROGRAM
    loaded = load_parts(PARTS, ThreadTeam(1))
    x = rows_of(9)
    np.testing.assert_array_equal(
        loaded.compute([x], Context())[0], x + WEIGHTS + WEIGHTS + WEIGHTS
    )
    loaded.close()


def test_constants_are_used_where_they_lie_in_the_file_while_it_has_them(tmp_path: Path) -> None:
    path = tmp_path / "context.bin"
    path.write_bytes(WEIGHTS.tobytes())
    with path.open("rb") as file:
        content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    loaded = load_parts({**PARTS, "w": content}, ThreadTeam(1))
    mapped = [row for row in Path("/proc/self/maps").read_text().splitlines() if str(path) in row]
    assert [row.split()[1] for row in mapped] == ["r--s"]
    x = rows_of(2)
    np.testing.assert_array_equal(
        loaded.compute([x], Context())[0], x + WEIGHTS + WEIGHTS + WEIGHTS
    )
    os.truncate(path, 0)
    with pytest.raises(EpContextError, match="file became shorter while the session was open"):
        loaded.compute([x], Context())
    loaded.close()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"program": None}, "the context has no part 'program'"),
        ({"program": b"{}"}, "the program of the machine code is wrong at '': it lacks the key 'form'"),
        ({"program": PARTS["program"][:-1]}, "is not valid JSON"),
        ({"code": None}, "the context has no part 'code'"),
        ({"code": CODE.data[:-1]}, f"the machine code has {len(CODE.data) - 1} bytes, and its program is for {len(CODE.data)} bytes"),
        ({"w": None}, "the context has no part 'w', which its program needs"),
        ({"w": bytes(17)}, "part 'w' of the context has 17 bytes, and its program needs 16"),
    ],
)  # fmt: skip
def test_parts_that_are_missing_or_cut_are_told(
    changes: dict[str, bytes | None], message: str
) -> None:
    changed = {**PARTS, **changes}
    parts = {name: data for name, data in changed.items() if data is not None}
    with pytest.raises(EpContextError) as caught:
        load_parts(parts, ThreadTeam(1))
    assert message in str(caught.value)


def test_parts_that_do_not_belong_together_are_not_written() -> None:
    with pytest.raises(CompileError, match=r"the code has 3 bytes, and its program is for \d+"):
        dump_parts(PROGRAM, b"abc", {"w": b""})
    with pytest.raises(CompileError, match="there is no constant 'w'"):
        dump_parts(PROGRAM, CODE.data, {})
