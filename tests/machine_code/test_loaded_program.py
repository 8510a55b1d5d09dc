from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ortpkg.compiler.machine_code.aligned_memory import aligned_block
from ortpkg.compiler.machine_code.array_addresses import address_of
from ortpkg.compiler.machine_code.executable_memory import map_code
from ortpkg.compiler.machine_code.executor_abi import LaunchWord
from ortpkg.compiler.machine_code.launch_plan import LaunchPlan
from ortpkg.compiler.machine_code.loaded_program import LoadedProgram
from ortpkg.compiler.machine_code.program import (
    ConstantSpec,
    Program,
    Step,
)
from ortpkg.compiler.machine_code.thread_team import ThreadTeam
from ortpkg.foundations.errors import (
    CancelledError,
    EpContextError,
    LimitExceededError,
    OrtpkgError,
    RunError,
)
from ortpkg.graph.shapes.expressions import Size
from ortpkg.graph.shapes.size_operations import floor_divide
from tests.machine_code.native_code import this_target
from tests.machine_code.native_programs import (
    CODE,
    COLUMNS,
    ROWS,
    WEIGHTS,
    Context,
    W,
    X,
    Y,
    chain,
    program,
    rows_of,
)


@pytest.fixture
def load() -> Iterator[Callable[..., LoadedProgram]]:
    opened: list[LoadedProgram] = []
    teams: list[ThreadTeam] = []

    def make(
        made: Program, *, threads: int = 1, constants: dict[str, Any] | None = None
    ) -> LoadedProgram:
        teams.append(ThreadTeam(threads))
        given = {"w": WEIGHTS.tobytes()} if constants is None else constants
        opened.append(LoadedProgram(made, map_code(CODE.data), given, teams[-1]))
        return opened[-1]

    yield make
    for each in opened:
        each.close()
    for team in teams:
        team.close()


@pytest.mark.parametrize("threads", [1, 3])
def test_a_program_runs_for_every_shape_that_it_takes(
    load: Callable[..., LoadedProgram], threads: int
) -> None:
    loaded = load(chain(5), threads=threads)
    for count in (3, 0, 1, 500, 3, 64, 500, 7):
        x = rows_of(count)
        (y,) = loaded.compute([x], Context())
        assert y.dtype == np.float32
        expected = x
        for _ in range(5):
            expected = expected + WEIGHTS
        np.testing.assert_array_equal(y, expected)


def test_outputs_are_new_arrays(load: Callable[..., LoadedProgram]) -> None:
    loaded = load(chain(2))
    x = rows_of(5)
    (first,) = loaded.compute([x], Context())
    kept = first.copy()
    (second,) = loaded.compute([x + 1], Context())
    np.testing.assert_array_equal(first, kept)
    assert not np.shares_memory(first, second)


def _only_plan(loaded: LoadedProgram) -> LaunchPlan:
    (plan,) = loaded._plans.values()
    return plan


def test_a_run_of_the_same_shape_takes_the_words_and_the_memory_of_the_last(
    load: Callable[..., LoadedProgram], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load(chain(3))
    loaded.compute([rows_of(9)], Context())
    kept = list(_only_plan(loaded).idle)
    assert len(kept) == 1

    monkeypatch.setattr(
        "ortpkg.compiler.machine_code.loaded_program.aligned_block",
        lambda _: pytest.fail("new memory"),
    )
    loaded.compute([rows_of(9)], Context())
    assert _only_plan(loaded).idle == kept


def test_words_that_a_worker_still_reads_are_given_to_no_other_run(
    load: Callable[..., LoadedProgram], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load(chain(3), threads=2)
    left: list[Any] = []

    def lend(holder: threading.Lock, code: Any, functions: Any, launch: Any) -> int:
        launch.view[LaunchWord.HELPERS] = 1  # as a worker that has not left when the run ends
        left.append(launch)
        return 0

    x = rows_of(100_000)  # worth the help of a worker
    with monkeypatch.context() as busy:
        busy.setattr(loaded._team, "borrow", lend)
        loaded.compute([x], Context())
        assert _only_plan(loaded).idle == []
        loaded.compute([x], Context())
    assert len(left) == 2
    assert left[0].address != left[1].address

    (y,) = loaded.compute([x], Context())
    np.testing.assert_array_equal(y, x + WEIGHTS + WEIGHTS + WEIGHTS)
    assert not set(left) & set(_only_plan(loaded).idle)


def test_a_run_with_little_to_do_wakes_nobody(
    load: Callable[..., LoadedProgram], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load(chain(3), threads=2)
    asked: list[Any] = []
    borrow = loaded._team.borrow

    def watched(*arguments: Any) -> int:
        asked.append(arguments)
        return borrow(*arguments)

    monkeypatch.setattr(loaded._team, "borrow", watched)
    x = rows_of(2)
    (y,) = loaded.compute([x], Context())
    assert asked == []
    np.testing.assert_array_equal(y, x + WEIGHTS + WEIGHTS + WEIGHTS)
    loaded.compute([rows_of(100_000)], Context())
    assert len(asked) == 1


def test_words_and_memory_of_few_parallel_runs_are_kept(
    load: Callable[..., LoadedProgram],
) -> None:
    loaded = load(chain(2))
    together = threading.Barrier(6)
    begun: list[int] = []

    def wait_once() -> None:
        if threading.get_ident() not in begun:
            begun.append(threading.get_ident())
            together.wait(60)

    class Together(Context):
        @property
        def is_watched(self) -> bool:  # asked when the run holds its words and memory
            wait_once()
            return False

        @is_watched.setter
        def is_watched(self, value: bool) -> None:
            pass

    runs = [
        threading.Thread(target=lambda: loaded.compute([rows_of(5)], Together())) for _ in range(6)
    ]
    for run in runs:
        run.start()
    for run in runs:
        run.join(60)
    assert len(begun) == 6
    assert (len(_only_plan(loaded).idle), len(loaded._blocks)) == (4, 4)


def test_sizes_that_grow_take_new_memory_now_and_then_alone(
    load: Callable[..., LoadedProgram], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []

    def note(nbytes: int) -> Any:
        taken.append(nbytes)
        return aligned_block(nbytes)

    loaded = load(chain(3))
    loaded.compute([rows_of(1000)], Context())
    monkeypatch.setattr("ortpkg.compiler.machine_code.loaded_program.aligned_block", note)
    for count in range(1001, 1061):
        loaded.compute([rows_of(count)], Context())
    blocks = [nbytes for nbytes in taken if nbytes > rows_of(1000).nbytes]
    assert 1 <= len(blocks) <= 3, taken


@pytest.mark.parametrize("threads", [1, 2])
def test_runs_of_eight_threads_go_side_by_side(
    load: Callable[..., LoadedProgram], threads: int
) -> None:
    loaded = load(chain(4), threads=threads)
    wrong: list[int] = []

    def session(number: int) -> None:
        x = rows_of(20 + number % 3)
        for _ in range(100):
            (y,) = loaded.compute([x], Context())
            if not np.array_equal(y, x + WEIGHTS + WEIGHTS + WEIGHTS + WEIGHTS):
                wrong.append(number)

    sessions = [threading.Thread(target=session, args=(number,)) for number in range(8)]
    for each in sessions:
        each.start()
    for each in sessions:
        each.join(120)
    assert wrong == []


def test_inputs_in_any_memory_are_read_as_they_are(
    load: Callable[..., LoadedProgram], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Any] = []

    def note(array: Any) -> int:
        read.append(array)
        return address_of(array)

    monkeypatch.setattr("ortpkg.compiler.machine_code.loaded_program.address_of", note)
    loaded = load(chain(1))
    x = rows_of(6)
    packed = bytearray(1) + x.tobytes()
    unaligned = np.frombuffer(packed, np.float32, offset=1).reshape(6, 4)
    assert not unaligned.flags.aligned
    for given in (np.asfortranarray(x), np.repeat(x, 2, axis=0)[::2], x[::-1][::-1], unaligned):
        (y,) = loaded.compute([given], Context())
        np.testing.assert_array_equal(y, x + WEIGHTS)
    assert all(array.flags.aligned and array.flags.c_contiguous for array in read)


def test_constants_lie_wherever_their_bytes_are(load: Callable[..., LoadedProgram]) -> None:
    x = rows_of(2)
    raw = bytearray(100)
    for offset in (0, 1, 33):
        raw[offset : offset + 16] = WEIGHTS.tobytes()
        view = memoryview(raw).toreadonly()[offset : offset + 16]
        (y,) = load(chain(1), constants={"w": view}).compute([x], Context())
        np.testing.assert_array_equal(y, x + WEIGHTS)


def test_offsets_point_into_buffers(load: Callable[..., LoadedProgram]) -> None:
    halves = tuple(
        Step(
            kernel="add_row",
            buffers=(
                replace(X, offset=start),
                replace(W, offset=ROWS * 16 - 64),
                replace(Y, offset=start),
            ),
            sizes=(4,),
            tile_count=2,
        )
        for start in (0, ROWS * 8)
    )
    weights = np.arange(8, dtype=np.float32)
    made = program(halves, constants=(ConstantSpec(part="w", nbytes=32),))
    loaded = load(made, constants={"w": weights.tobytes()})
    x = rows_of(4)
    np.testing.assert_array_equal(loaded.compute([x], Context())[0], x + weights[:4])
    with pytest.raises(
        RunError,
        match=r"step 'add_row' of the compiled program begins 16 bytes behind the end of constant 0",
    ):
        loaded.compute([rows_of(7)], Context())


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(2, 5)], r"input 0 \('x0'\) has the shape \[2, 5\], and the compiled program takes \[rows, 4\], where 'rows' = 2"),
        ([(4,)], r"input 0 \('x0'\) has the shape \[4\], and the compiled program takes \[rows, 4\]$"),
        ([(2, 4), (2, 4)], "takes 1 inputs, and was given 2"),
    ],
)  # fmt: skip
def test_shapes_that_do_not_fit_are_told(
    load: Callable[..., LoadedProgram], shapes: list[tuple[int, ...]], message: str
) -> None:
    loaded = load(chain(1))
    for _ in range(2):
        with pytest.raises(RunError, match=message):
            loaded.compute([np.zeros(shape, np.float32) for shape in shapes], Context())


def test_symbols_and_formulas_of_several_inputs_must_agree(
    load: Callable[..., LoadedProgram],
) -> None:
    step = Step(kernel="add_row", buffers=(X, W, Y), sizes=(4,), tile_count=ROWS)
    made = program((step,), inputs=((ROWS, 4), (COLUMNS, ROWS), (ROWS * 2 + 1,)))
    loaded = load(made)

    def arrays(*shapes: tuple[int, ...]) -> list[Any]:
        return [np.zeros(shape, np.float32) for shape in shapes]

    (y,) = loaded.compute(arrays((2, 4), (9, 2), (5,)), Context())
    assert y.shape == (2, 4)
    with pytest.raises(
        RunError,
        match=r"input 1 \('x1'\) has the shape \[9, 3\], and the compiled program takes \[columns, rows\]",
    ):
        loaded.compute(arrays((2, 4), (9, 3), (5,)), Context())
    with pytest.raises(
        RunError,
        match=r"input 2 \('x2'\) has the shape \[6\], and the compiled program takes \[2\*rows \+ 1\]",
    ):
        loaded.compute(arrays((2, 4), (9, 2), (6,)), Context())


def test_a_wrong_element_type_is_told(load: Callable[..., LoadedProgram]) -> None:
    loaded = load(chain(1))
    for dtype in (np.dtype(np.float64), np.dtype(ml_dtypes.bfloat16), np.dtype(">f4")):
        with pytest.raises(
            RunError,
            match=rf"input 0 \('x0'\) has elements of type {dtype}, and the compiled program takes float32",
        ):
            loaded.compute([np.zeros((2, 4), dtype)], Context())


def test_memory_is_asked_for_before_it_is_taken(
    load: Callable[..., LoadedProgram], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load(chain(3))
    context = Context(most_nbytes=10_000)
    loaded.compute([rows_of(64)], context)
    assert context.asked == [64 * 16 + 2 * 64 * 16 + 64]
    monkeypatch.setattr(np, "empty", lambda *_: pytest.fail("memory was taken"))
    with pytest.raises(LimitExceededError, match="bytes are too many"):
        loaded.compute([np.zeros((1000, 4), np.float32)], context)


@pytest.mark.parametrize("power", [20, 29, 34, 60])
def test_sizes_that_no_machine_has_are_a_typed_error(
    load: Callable[..., LoadedProgram], power: int
) -> None:
    cubed = ROWS * ROWS * ROWS
    step = Step(kernel="add_row", buffers=(X, W, Y), sizes=(4,), tile_count=cubed)
    loaded = load(program((step,), inputs=((ROWS, 0),), outputs=((cubed, 4),)))
    with pytest.raises(
        LimitExceededError, match=r"which (no machine has|this machine does not give)"
    ) as caught:
        loaded.compute([np.zeros((1 << power, 0), np.float32)], Context())
    assert caught.value.limit == "memory"


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (ROWS - 5, r"the size 'rows - 5' of the compiled program is -2 for 'rows' = 3"),
        (None, r"the size 'floor\(8/\(rows - 3\)\)' of the compiled program has no value for 'rows' = 3"),
    ],
)  # fmt: skip
def test_a_size_that_is_none_for_a_shape_is_told(
    load: Callable[..., LoadedProgram], size: Size | None, message: str
) -> None:
    tiles = floor_divide(8, ROWS - 3) if size is None else size
    step = Step(kernel="add_row", buffers=(X, W, Y), sizes=(4,), tile_count=tiles)
    loaded = load(program((step,)))
    with pytest.raises(RunError, match=message):
        loaded.compute([rows_of(3)], Context())


def test_tiles_that_are_no_whole_number_of_waves_are_refused(
    load: Callable[..., LoadedProgram],
) -> None:
    step = Step(kernel="slow", buffers=(X, Y), tile_count=ROWS, wave_tiles=2)
    loaded = load(program((step,)))
    with pytest.raises(RunError, match=r"step 0 .* has 3 tiles in waves of 2 for 'rows' = 3"):
        loaded.compute([rows_of(3)], Context())


@pytest.mark.parametrize("threads", [1, 2])
def test_a_run_that_is_to_end_ends_at_once(
    load: Callable[..., LoadedProgram], threads: int
) -> None:
    endless = Step(kernel="slow", buffers=(X, Y), tile_count=1_000_000)
    loaded = load(program((endless,)), threads=threads)
    begun = time.monotonic()
    wished: list[float] = []

    def check() -> None:
        if time.monotonic() - begun > 0.1:
            wished.append(time.monotonic())
            raise CancelledError("the caller wants an end")

    with pytest.raises(CancelledError, match="the caller wants an end"):
        loaded.compute([rows_of(1)], Context(check_cancelled=check))
    assert time.monotonic() - wished[0] < 30  # of several minutes, on the busiest machine

    short = load(chain(2), threads=threads)
    x = rows_of(3)
    (y,) = short.compute([x], Context(check_cancelled=lambda: None))
    np.testing.assert_array_equal(y, x + WEIGHTS + WEIGHTS)


def test_a_failed_access_is_told_and_the_program_runs_on(
    load: Callable[..., LoadedProgram],
) -> None:
    fail = Step(kernel="fail", buffers=(X, Y), sizes=(ROWS - 5,), tile_count=3)
    loaded = load(program((fail,)))
    with pytest.raises(RunError, match="access 4 of the compiled code would have left its buffer"):
        loaded.compute([rows_of(6)], Context())
    loaded.compute([rows_of(50)], Context())


def test_many_shapes_keep_a_bounded_number_of_plans(
    load: Callable[..., LoadedProgram], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ortpkg.compiler.machine_code.loaded_program._MOST_PLANS", 8)
    loaded = load(chain(3))
    for count in [*range(1, 40), *range(39, 0, -1)]:
        x = rows_of(count)
        np.testing.assert_array_equal(
            loaded.compute([x], Context())[0], x + WEIGHTS + WEIGHTS + WEIGHTS
        )
    assert len(loaded._plans) == 8
    assert len(loaded._blocks) == 1


def test_a_closed_program_says_so_and_lets_go(load: Callable[..., LoadedProgram]) -> None:
    loaded = load(chain(1))
    loaded.compute([rows_of(1)], Context())
    loaded.close()
    assert (loaded._plans, loaded._blocks) == ({}, [])
    with pytest.raises(RunError, match="the compiled program was closed"):
        loaded.compute([rows_of(1)], Context())


def test_closing_waits_for_nobody_and_takes_nothing_from_a_run(
    load: Callable[..., LoadedProgram],
) -> None:
    step = Step(kernel="slow", buffers=(X, Y), tile_count=100)
    loaded = load(program((step,)))
    done: list[int] = []
    running = threading.Thread(
        target=lambda: done.append(len(loaded.compute([rows_of(1)], Context())))
    )
    running.start()
    time.sleep(0.03)
    loaded.close()
    running.join(60)
    assert done == [1]


def test_what_is_not_the_program_s_is_refused() -> None:
    good = chain(1)

    def refused(made: Program, constants: dict[str, bytes], message: str) -> None:
        with pytest.raises(EpContextError, match=message), map_code(CODE.data) as code:
            LoadedProgram(made, code, constants, ThreadTeam(1))

    other = "linux-aarch64" if this_target().family == "x86_64" else "linux-x86_64_v2"
    refused(
        replace(good, target=other),
        {},
        f"the machine code is for {other}, which this machine does not run: the CPU lacks",
    )
    refused(
        replace(good, target="linux-vax"),
        {},
        "the machine code is for 'linux-vax', which this version of ortpkg does not know",
    )
    refused(
        replace(good, extras=("i8mm" if other != "linux-aarch64" else "sve",)),
        {},
        "which this machine does not run",
    )
    refused(
        replace(good, code_nbytes=8),
        {},
        rf"the machine code has {len(CODE.data)} bytes, and its program is for 8 bytes",
    )
    refused(good, {}, "the context has no part 'w', which its program needs")
    refused(
        good, {"w": bytes(15)}, "part 'w' of the context has 15 bytes, and its program needs 16"
    )


def test_errors_of_many_kinds_leave_nothing_taken(load: Callable[..., LoadedProgram]) -> None:
    loaded = load(chain(3))
    loaded.compute([rows_of(4)], Context())
    for _ in range(20):
        for shape in ((4, 3), (4,)):
            with pytest.raises(OrtpkgError):
                loaded.compute([np.zeros(shape, np.float32)], Context())
    assert len(loaded._blocks) == 1
    assert len(loaded._plans) == 1
