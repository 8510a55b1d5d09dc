"""A compiled partition as the parts of a context, and back: program, code, constants.

Parts with equal bytes lie once in a context binary, however many partitions and targets have them.
"""

from __future__ import annotations

from collections.abc import Mapping

from ortpkg.ep_names import LLVM_EP
from ortpkg.errors import CompileError, EpContextError, quoted
from ortpkg.machine_code.executable_memory import map_code
from ortpkg.machine_code.loaded_program import LoadedProgram, verify_target
from ortpkg.machine_code.program import Program
from ortpkg.machine_code.program_checks import verify_program
from ortpkg.machine_code.program_format import dump_program, load_program
from ortpkg.machine_code.thread_team import ThreadTeam

PROGRAM_PART = "program"
CODE_PART = "code"
_OWN_PARTS = (PROGRAM_PART, CODE_PART)

Part = bytes | memoryview


def dump_parts(program: Program, code: bytes, constants: Mapping[str, Part]) -> dict[str, Part]:
    """The parts of a partition's context.

    Args:
        program: what the partition does.
        code: the block of code that it is for.
        constants: part → bytes, at least those that the program names; others are left out.

    Raises CompileError where they are not the program's.
    """
    if len(code) != program.code_nbytes:
        raise CompileError(
            f"the code has {len(code)} bytes, and its program is for {program.code_nbytes}",
            ep_name=LLVM_EP,
        )
    parts: dict[str, Part] = {PROGRAM_PART: dump_program(program), CODE_PART: code}
    for each in program.constants:
        if each.part in _OWN_PARTS or each.part not in constants:
            raise CompileError(f"there is no constant {quoted(each.part)}", ep_name=LLVM_EP)
        parts[each.part] = constants[each.part]
    return parts


def read_program(parts: Mapping[str, Part]) -> Program:
    """The program among the parts, without a look at its code. EpContextError where it is wrong."""
    return load_program(bytes(_part(parts, PROGRAM_PART)))


def load_parts(parts: Mapping[str, Part], team: ThreadTeam) -> LoadedProgram:
    """The partition, ready to run.

    Args:
        parts: of its context, compared with their digests.
        team: of the session.

    Raises EpContextError where a part is missing, wrong, or for another machine; it is looked at in
    this order: program, target and features, code, constants. Raises ExecutionProviderError where
    the system gives no memory for code.
    """
    program = read_program(parts)
    verify_target(program)
    return _loaded(program, _part(parts, CODE_PART), parts, team)


def load_compiled(
    program: Program, code: bytes, constants: Mapping[str, Part], team: ThreadTeam
) -> LoadedProgram:
    """The partition that this process compiled, ready to run; raises as :func:`load_parts`.

    It is verified as one that was read.
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
