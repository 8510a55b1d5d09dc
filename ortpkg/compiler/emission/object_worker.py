"""Child process in which LLVM compiles modules for its parent.

The parent's side is :mod:`ortpkg.compiler.assembly.compilation_queue`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ortpkg.compiler.emission.elf_object import LinkedCode
from ortpkg.compiler.emission.object_compiler import ObjectCompiler
from ortpkg.foundations.isolation.worker import Message, Worker


def open_compiler(triple: str, cpu: str, features: Sequence[str]) -> Callable[[Message], Message]:
    """Return the worker's handler: receives texts of modules and returns their code.

    The handler raises what :meth:`ObjectCompiler.link` raises.
    """
    compiler = ObjectCompiler(triple=triple, cpu=cpu, features=features)

    def compile_modules(request: Message) -> Message:
        made = [compiler.link(bytes(text).decode()) for text in request.buffers]
        return Message(
            header={"functions": [dict(code.functions) for code in made]},
            buffers=[code.data for code in made],
        )

    return compile_modules


def start_compiling_process(compiler: ObjectCompiler) -> Worker:
    """Start a child process that compiles for the same CPU; OSError if that fails."""
    return Worker(f"{__name__}:{open_compiler.__name__}", compiler.cpu_words)


def compile_in(process: Worker, module_texts: Sequence[str]) -> list[LinkedCode]:
    """Return the code of modules, compiled by such a process.

    Raises:
        WorkerCallError: if LLVM fails.
        WorkerEndedError: if the process has ended.
    """
    reply = process.call(Message(buffers=[text.encode() for text in module_texts]))
    return [
        LinkedCode(data=bytes(data), functions=functions)
        for functions, data in zip(reply.header["functions"], reply.buffers, strict=True)
    ]
