"""Compiles kernels for one target, unless this process or the kernel cache has their code."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ortpkg.compiler.assembly.compilation_queue import Code, CompilationQueue
from ortpkg.compiler.assembly.compilation_target import CompilationTarget
from ortpkg.compiler.emission.elf_object import LinkedCode
from ortpkg.compiler.machine_code.kernel_cache import CachedKernel, KernelCache
from ortpkg.foundations.host.cores import usable_cores
from ortpkg.graph.load_control import poll_load

#: Compiled kernels that one process keeps; each takes some kilobytes.
_MOST_KEPT = 4096
_KEPT: dict[tuple[bytes, CompilationTarget], LinkedCode] = {}


class _Started(NamedTuple):
    """A kernel being compiled, with its keys in memory and on disk."""

    memory_key: tuple[bytes, CompilationTarget]
    cache_key: str
    code: Code


class KernelCompiler:
    """Compiles kernels for one target. Close it, which ends the work in progress."""

    def __init__(self, target: CompilationTarget, cache: KernelCache | None = None) -> None:
        self._target = target
        self._cache = cache
        self._compiler = target.compiler()
        self._queue = CompilationQueue(self._compiler, most_processes=usable_cores() - 1)
        self._started: list[_Started] = []

    def start(self, text: str, make_module: Callable[[], str]) -> Code:
        """Start to compile a kernel; return its code, which is complete after :meth:`finish`.

        Args:
            text: text of the kernel, which identifies it.
            make_module: function that makes its module of LLVM IR, called only if needed.
        """
        poll_load()
        memory_key = (hashlib.sha256(text.encode()).digest(), self._target)
        if (code_in_memory := _KEPT.get(memory_key)) is not None:
            return _done(code_in_memory)
        module_text = make_module()
        cache_key = "" if self._cache is None else self._compiler.key_of(module_text)
        if self._cache is not None and (cached := self._cache.read(cache_key)) is not None:
            code = LinkedCode(data=cached.code, functions=cached.functions)
            _keep({memory_key: code})
            return _done(code)
        made = self._queue.put(module_text)
        self._started.append(_Started(memory_key, cache_key, made))
        return made

    def finish(self) -> None:
        """Wait until all started kernels are compiled, and keep their code.

        Raises:
            CompileError: if LLVM fails.
            LimitExceededError: if a load limit is exceeded.
        """
        started, self._started = self._started, []
        self._queue.finish([kernel.code for kernel in started])
        _keep({kernel.memory_key: kernel.code.result() for kernel in started})
        if self._cache is not None:
            made = {kernel.cache_key: kernel.code.result() for kernel in started}
            self._cache.write(
                {
                    key: CachedKernel(functions=code.functions, code=code.data)
                    for key, code in made.items()
                }
            )

    def close(self) -> None:
        """End the work in progress."""
        self._queue.close()


def _done(code: LinkedCode) -> Code:
    done = Code()
    done.set_result(code)
    return done


def _keep(codes: Mapping[tuple[bytes, CompilationTarget], LinkedCode]) -> None:
    _KEPT.update(codes)
    for oldest in list(_KEPT)[: max(0, len(_KEPT) - _MOST_KEPT)]:
        _KEPT.pop(oldest, None)
