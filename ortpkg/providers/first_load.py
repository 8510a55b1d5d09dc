"""The first load of a compiled context on a machine happens in a child process, which may crash or hang instead of us.

That it went well is remembered, by the digests of the context and by what it was loaded with. It says nothing about
intentions: a child protects from accidents, not from attackers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ortpkg.devices.fact_cache import prune_facts, read_fact, write_fact
from ortpkg.devices.hardware import EpDevice
from ortpkg.errors import EpContextError, LimitExceededError, quoted
from ortpkg.isolation.worker import Worker, WorkerCallError, WorkerEndedError
from ortpkg.providers.ep_context_descriptor import ContextDescriptor
from ortpkg.providers.ep_context_file import ContextEntry
from ortpkg.providers.isolated_model import (
    ISOLATED_BACKENDS,
    LoadLimits,
    backend_worker,
    call_within,
    import_member_request,
    import_request,
)
from ortpkg.providers.native_library import words_of

#: Large contexts take seconds on a loaded machine; one that hangs must not hang us for good.
FIRST_LOAD_TIMEOUT_S = 300.0
_KIND = "ep_context_loads"
_MOST_KEPT = 1000


def load_in_child_first(
    entry: ContextEntry,
    here: ContextDescriptor,
    *,
    backend: str,
    options: Mapping[str, str],
    ep_devices: Sequence[EpDevice],
) -> None:
    """Loads the context in a child, unless that went well before, or its backend cannot be put into one.

    Raises EpContextError where the child crashed, hung, or could not load it.
    """
    if backend not in ISOLATED_BACKENDS:
        return
    key = {"parts": dict(entry.digests), "environment": here.to_json()}
    if entry.digests and read_fact(_KIND, key) is not None:
        return
    reason = _load(entry, here, backend, options, ep_devices)
    if reason:
        raise EpContextError(
            f"{here.ep} cannot load the context of partition {quoted(entry.name)}; in the child process that tried "
            f"first: {reason}",
            ep_name=here.ep,
            source=entry.descriptor.ep,
            partition_name=entry.name,
        )
    if entry.digests:
        write_fact(_KIND, key, True)
        prune_facts(_KIND, keep=_MOST_KEPT)


def _load(
    entry: ContextEntry,
    here: ContextDescriptor,
    backend: str,
    options: Mapping[str, str],
    ep_devices: Sequence[EpDevice],
) -> str:
    """How it failed; "" where it did not."""
    worker: Worker | None = None
    try:
        worker = backend_worker(here.ep, backend, options, ep_devices)
        is_weightless = bool(entry.descriptor.weights_source)
        request = import_member_request(entry.parts) if is_weightless else import_request(entry.parts)
        call_within(worker, LoadLimits(timeout_s=FIRST_LOAD_TIMEOUT_S), request)
    except WorkerEndedError as error:
        return str(error)
    except WorkerCallError as error:
        return quoted(words_of(error))
    except LimitExceededError:
        return f"it did not end within {FIRST_LOAD_TIMEOUT_S:g} s"
    except OSError as error:
        return f"it cannot be started: {error.strerror}"
    finally:
        if worker is not None:
            worker.close()
    return ""
