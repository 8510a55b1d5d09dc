"""Executable code in memory, mapped once per process for equal code, while anybody uses it."""

from __future__ import annotations

import hashlib
import os
import threading
from dataclasses import dataclass

from ortpkg.compiler.machine_code.executable_pages import CodePages, PageSource, page_source
from ortpkg.foundations.ep_names import LLVM_EP
from ortpkg.foundations.errors import ExecutionProviderError, quoted


class ExecutableCode:
    """A user's reference to code in memory. Use it as a context manager, or close it.

    Attributes:
        address: address of the code, a multiple of the page size.
        nbytes: length of the code.
    """

    def __init__(self, shared: _Shared, nbytes: int) -> None:
        """Create a reference; call :func:`map_code` instead."""
        self._shared: _Shared | None = shared
        self.address = shared.pages.address
        self.nbytes = nbytes

    def another(self) -> ExecutableCode:
        """Return a second reference to the same code; ValueError if this one is closed."""
        if self._shared is None:
            raise ValueError("the code is no longer held")
        return ExecutableCode(_MAPPED.share(self._shared), self.nbytes)

    def close(self) -> None:
        """Release the reference; the last one unmaps the code. Closing again does nothing."""
        shared, self._shared = self._shared, None
        if shared is not None:
            _MAPPED.release(shared)

    def __enter__(self) -> ExecutableCode:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


def map_code(code: bytes | memoryview, *, source: PageSource | None = None) -> ExecutableCode:
    """Return a copy of code in executable, read-only memory.

    Later changes of the code's file do not affect it.

    Args:
        code: the bytes; the caller has verified their digest.
        source: source of pages; None for the running system.

    Raises:
        ExecutionProviderError: if the system provides no such memory.
    """
    data = memoryview(code).cast("B")
    return ExecutableCode(_MAPPED.take(data, source), data.nbytes)


def reason_against_code() -> str | None:
    """Return why the system lets this process run no generated code; None if it does.

    Hardened systems refuse it to all processes, or to some.
    """
    try:
        page_source().verify()
    except (OSError, ValueError) as error:
        return _refused(error)
    return None


def _refused(error: OSError | ValueError) -> str:
    reason = getattr(error, "strerror", None) or str(error)
    return f"the system allows no executable memory here: {quoted(reason)}"


@dataclass(slots=True, eq=False)
class _Shared:
    digest: bytes
    pages: CodePages
    user_count: int = 0


class _MappedCode:
    """All code that is mapped in this process, by its digest."""

    def __init__(self) -> None:
        self._by_digest: dict[bytes, _Shared] = {}
        self.forget_lock()

    def forget_lock(self) -> None:
        """Create a new lock, since a fork may have copied one that a thread of its parent held.

        It is reentrant, because the garbage collector may close unused code anywhere, even in the
        thread that holds the lock.
        """
        self._lock = threading.RLock()

    def take(self, data: memoryview, source: PageSource | None) -> _Shared:
        """Return the mapping of this code, with one more user."""
        digest = hashlib.sha256(data).digest()
        with self._lock:
            shared = self._by_digest.get(digest)
            if shared is None:
                shared = _Shared(digest, _mapped(data, source or page_source()))
                self._by_digest[digest] = shared
            shared.user_count += 1
            return shared

    def share(self, shared: _Shared) -> _Shared:
        """Return the mapping, which is in use, with one more user."""
        with self._lock:
            shared.user_count += 1
            return shared

    def release(self, shared: _Shared) -> None:
        """Count one user less, and unmap the code after the last."""
        with self._lock:
            shared.user_count -= 1
            if shared.user_count == 0:
                del self._by_digest[shared.digest]
                shared.pages.release()


def _mapped(data: memoryview, source: PageSource) -> CodePages:
    try:
        return source.map_bytes(data)
    except (OSError, ValueError) as error:
        raise ExecutionProviderError(
            f"{_refused(error)}; the code cannot be run, the model on another execution provider"
            " can",
            ep_name=LLVM_EP,
        ) from error


_MAPPED = _MappedCode()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_MAPPED.forget_lock)
