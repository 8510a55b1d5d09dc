"""In a child process: LLVM, which compiles modules for its parent.

The parent's side is :mod:`ortpkg.codegen.assembly.compilation_queue`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ortpkg.codegen.emission.elf_object import LinkedCode
from ortpkg.codegen.emission.object_compiler import ObjectCompiler
from ortpkg.isolation.worker import Message, Worker


def open_compiler(triple: str, cpu: str, features: Sequence[str]) -> Callable[[Message], Message]:
    """The worker's handler: modules' texts in, their code out. It raises what compiling raises."""
    compiler = ObjectCompiler(triple=triple, cpu=cpu, features=features)

    def compile_modules(request: Message) -> Message:
        made = [compiler.link(bytes(each).decode()) for each in request.buffers]
        return Message(
            header={"functions": [dict(each.functions) for each in made]},
            buffers=[each.data for each in made],
        )

    return compile_modules


def start_compiling_process(compiler: ObjectCompiler) -> Worker:
    """A child process that compiles for the same CPU. OSError where none can be started."""
    return Worker(f"{__name__}:{open_compiler.__name__}", compiler.cpu_words)


def compile_in(process: Worker, module_texts: Sequence[str]) -> list[LinkedCode]:
    """The code of modules, by such a process.

    Raises WorkerCallError where LLVM fails, WorkerEndedError where the process has ended.
    """
    reply = process.call(Message(buffers=[each.encode() for each in module_texts]))
    return [
        LinkedCode(data=bytes(data), functions=functions)
        for functions, data in zip(reply.header["functions"], reply.buffers, strict=True)
    ]
