"""Converts a compiled partition to parts of a context and back: program, code, constants.

A context binary stores parts with equal bytes once, for all partitions and targets.
"""

from __future__ import annotations

from collections.abc import Mapping

from ortpkg.compiler.machine_code.executable_memory import map_code
from ortpkg.compiler.machine_code.loaded_program import LoadedProgram, verify_target
from ortpkg.compiler.machine_code.program import Program
from ortpkg.compiler.machine_code.program_checks import verify_program
from ortpkg.compiler.machine_code.program_format import dump_program, load_program
from ortpkg.compiler.machine_code.thread_team import ThreadTeam
from ortpkg.foundations.ep_names import LLVM_EP
from ortpkg.foundations.errors import CompileError, EpContextError, quoted

PROGRAM_PART = "program"
CODE_PART = "code"
_OWN_PARTS = (PROGRAM_PART, CODE_PART)

Part = bytes | memoryview


def dump_parts(program: Program, code: bytes, constants: Mapping[str, Part]) -> dict[str, Part]:
    """Return the parts of a partition's context.

    Args:
        program: the program.
        code: its code.
        constants: part → bytes, at least those that the program names; others are left out.

    Raises:
        CompileError: if code or constants are not the program's.
    """
    if len(code) != program.code_nbytes:
        raise CompileError(
            f"the code has {len(code)} bytes, and its program is for {program.code_nbytes}",
            ep_name=LLVM_EP,
        )
    parts: dict[str, Part] = {PROGRAM_PART: dump_program(program), CODE_PART: code}
    for constant in program.constants:
        if constant.part in _OWN_PARTS or constant.part not in constants:
            raise CompileError(f"there is no constant {quoted(constant.part)}", ep_name=LLVM_EP)
        parts[constant.part] = constants[constant.part]
    return parts


def read_program(parts: Mapping[str, Part]) -> Program:
    """Return the program among the parts, without its code; EpContextError if it is wrong."""
    return load_program(bytes(_part(parts, PROGRAM_PART)))


def load_parts(parts: Mapping[str, Part], team: ThreadTeam) -> LoadedProgram:
    """Return the partition, ready to run.

    Args:
        parts: parts of its context, with verified digests.
        team: threads of the session.

    Raises:
        EpContextError: if a part is missing, wrong, or for another machine. Checked in this order:
            program, target and features, code, constants.
        ExecutionProviderError: if the system provides no memory for code.
    """
    program = read_program(parts)
    verify_target(program)
    return _loaded(program, _part(parts, CODE_PART), parts, team)


def load_compiled(
    program: Program, code: bytes, constants: Mapping[str, Part], team: ThreadTeam
) -> LoadedProgram:
    """Return a partition compiled by this process, ready to run; raise as :func:`load_parts`.

    It is verified like one that was read.
    """
    verify_program(program)
    verify_target(program)
    return _loaded(program, code, constants, team)


def _loaded(
    program: Program, data: Part, constants: Mapping[str, Part], team: ThreadTeam
) -> LoadedProgram:
    code = map_code(data)
    try:
        return LoadedProgram(program, code, constants, team)
    except BaseException:
        code.close()
        raise


def _part(parts: Mapping[str, Part], name: str) -> Part:
    if name not in parts:
        raise EpContextError(f"the context has no part {quoted(name)}", ep_name=LLVM_EP)
    return parts[name]
