"""Code of kernels for one target: what this process or the cache of kernels has is not compiled."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ortpkg.codegen.assembly.compilation_queue import Code, CompilationQueue
from ortpkg.codegen.assembly.compilation_target import CompilationTarget
from ortpkg.codegen.emission.elf_object import LinkedCode
from ortpkg.ep_context.kernel_cache import CachedKernel, KernelCache
from ortpkg.graph.load_control import poll_load
from ortpkg.host.cores import usable_cores

#: Kernels that one process keeps compiled; each takes some kilobytes.
_MOST_KEPT = 4096
_KEPT: dict[tuple[bytes, CompilationTarget], LinkedCode] = {}


class _Started(NamedTuple):
    """A kernel that is compiled, with its keys in memory and on the disk."""

    kept_key: tuple[bytes, CompilationTarget]
    cache_key: str
    code: Code


class KernelCompiler:
    """Compiles kernels for one target. Close it, which ends what is under way."""

    def __init__(self, target: CompilationTarget, cache: KernelCache | None = None) -> None:
        self._target = target
        self._cache = cache
        self._compiler = target.compiler()
        self._queue = CompilationQueue(self._compiler, most_processes=usable_cores() - 1)
        self._started: list[_Started] = []

    def start(self, text: str, make_module: Callable[[], str]) -> Code:
        """The code of a kernel, which is there at the latest after :meth:`finish`.

        Args:
            text: tells it from others.
            make_module: makes its module of LLVM IR, if that is needed.
        """
        poll_load()
        kept_key = (hashlib.sha256(text.encode()).digest(), self._target)
        if (kept := _KEPT.get(kept_key)) is not None:
            return _done(kept)
        module_text = make_module()
        cache_key = "" if self._cache is None else self._compiler.key_of(module_text)
        if self._cache is not None and (cached := self._cache.read(cache_key)) is not None:
            code = LinkedCode(data=cached.code, functions=cached.functions)
            _keep({kept_key: code})
            return _done(code)
        made = self._queue.put(module_text)
        self._started.append(_Started(kept_key, cache_key, made))
        return made

    def finish(self) -> None:
        """Waits until all that was started is compiled, and keeps it.

        Raises CompileError where LLVM fails, what a load limit raises where it is passed.
        """
        started, self._started = self._started, []
        self._queue.finish([each.code for each in started])
        _keep({each.kept_key: each.code.result() for each in started})
        if self._cache is not None:
            made = {each.cache_key: each.code.result() for each in started}
            self._cache.write(
                {
                    key: CachedKernel(functions=code.functions, code=code.data)
                    for key, code in made.items()
                }
            )

    def close(self) -> None:
        """Ends what is under way."""
        self._queue.close()


def _done(code: LinkedCode) -> Code:
    done = Code()
    done.set_result(code)
    return done


def _keep(codes: Mapping[tuple[bytes, CompilationTarget], LinkedCode]) -> None:
    _KEPT.update(codes)
    for oldest in list(_KEPT)[: max(0, len(_KEPT) - _MOST_KEPT)]:
        _KEPT.pop(oldest, None)
