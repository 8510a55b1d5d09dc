"""Modules compiled by child processes and here: the same code, errors that are told, nothing left."""

from __future__ import annotations

import pytest

from ortpkg.compiler.assembly import compilation_queue
from ortpkg.compiler.assembly.compilation_queue import CompilationQueue
from ortpkg.compiler.emission.elf_object import LinkedCode
from ortpkg.compiler.emission.object_compiler import ObjectCompiler
from ortpkg.foundations.errors import CompileError, LimitExceededError
from ortpkg.foundations.isolation.worker import Worker, WorkerEndedError
from ortpkg.graph.load_control import LoadControl, load_limits

_COMPILER = ObjectCompiler(triple="x86_64-unknown-linux-gnu", cpu="x86-64-v3")


def _module(number: int) -> str:
    return f"""define i64 @kernel(i64 %x) nounwind {{
  %y = mul i64 %x, {number + 3}
  ret i64 %y
}}
"""


def _compiled(count: int, processes: int) -> list[LinkedCode]:
    queue = CompilationQueue(_COMPILER, most_processes=processes)
    try:
        codes = [queue.put(_module(number)) for number in range(count)]
        queue.finish(codes)
        return [code.result() for code in codes]
    finally:
        queue.close()


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes are started for any work, and get one module at a time."""
    monkeypatch.setattr(compilation_queue, "_WORTH_A_PROCESS", 0)
    monkeypatch.setattr(compilation_queue, "_REQUEST_LENGTH", 1)


@pytest.mark.usefixtures("eager")
def test_code_is_the_same_with_any_number_of_processes() -> None:
    alone = _compiled(6, 0)
    assert len({code.data for code in alone}) == 6
    assert _compiled(6, 1) == _compiled(6, 2) == alone


@pytest.mark.usefixtures("eager")
def test_a_process_compiles_what_is_put_while_others_are_made() -> None:
    queue = CompilationQueue(_COMPILER, most_processes=1)
    code = queue.put(_module(0))
    assert code.result(timeout=600).functions == {"kernel": 0}
    queue.close()


@pytest.mark.usefixtures("eager")
def test_what_llvm_refuses_in_a_process_is_told() -> None:
    queue = CompilationQueue(_COMPILER, most_processes=1)
    code = queue.put("define nonsense")
    with pytest.raises(CompileError, match="LLVM refuses what ortpkg generated"):
        code.result(timeout=600)
    queue.close()


@pytest.mark.usefixtures("eager")
def test_a_process_that_dies_fails_its_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    def die(process: Worker, _texts: object) -> list[LinkedCode]:
        process.kill("it was killed")
        raise WorkerEndedError("it was killed")

    monkeypatch.setattr(compilation_queue, "compile_in", die)
    queue = CompilationQueue(_COMPILER, most_processes=1)
    code = queue.put(_module(0))
    with pytest.raises(CompileError, match="the process that compiled kernels failed: it was kill"):
        code.result(timeout=600)
    queue.close()


def test_a_time_limit_holds_between_modules() -> None:
    queue = CompilationQueue(_COMPILER, most_processes=0)
    codes = [queue.put(_module(number)) for number in range(3)]
    control = LoadControl(memory_limit_nbytes=None, timeout_s=0.0)
    with load_limits(control), pytest.raises(LimitExceededError, match="passed its time limit"):
        queue.finish(codes)
    queue.close()


def test_little_work_starts_no_process() -> None:
    queue = CompilationQueue(_COMPILER, most_processes=8)
    codes = [queue.put(_module(number)) for number in range(3)]
    queue.finish(codes)
    assert queue.process_count == 0
    queue.close()
