"""What a server is told when it starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ortpkg.selection.wishes import ANY_VARIANT, SelectionWishes

DEFAULT_TIMEOUT_S = 60.0
#: Of a request's body, and of a message of gRPC.
DEFAULT_REQUEST_NBYTES = 64 << 20
DEFAULT_WAITING = 100
DEFAULT_CONNECTIONS = 1000
DEFAULT_DRAIN_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingLimits:
    """What requests may take.

    Attributes:
        concurrency: how many run at the same time.
        most_waiting: how many wait for that; the next is told to come back later.
        timeout_s: of one request, its time in the queue included.
        memory_limit_nbytes: of one run, as of :class:`~ortpkg.RunOptions`; None: the machine's.
        request_nbytes: of one request.
        connections: how many clients may be connected by each protocol.
        drain_s: how long requests may go on after the server was told to end.
    """

    concurrency: int
    most_waiting: int = DEFAULT_WAITING
    timeout_s: float = DEFAULT_TIMEOUT_S
    memory_limit_nbytes: int | None = None
    request_nbytes: int = DEFAULT_REQUEST_NBYTES
    connections: int = DEFAULT_CONNECTIONS
    drain_s: float = DEFAULT_DRAIN_S


@dataclass(frozen=True, slots=True, kw_only=True)
class ListeningPlace:
    """Where a server listens, and to whom.

    Attributes:
        host: a name or an address; by default nobody but this machine can reach it.
        port, grpc_port: 0: one that is free.
        certificate, private_key: files in PEM; with them everything is encrypted.
        token: what clients must send as a bearer token; None: whoever reaches it is answered.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    grpc_port: int = 8081
    certificate: Path | None = None
    private_key: Path | None = None
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadWishes:
    """How a package is opened to be served.

    Attributes:
        name: what clients call it; None: as it states itself, or was installed.
        selection: what is asked of its variants.
        component: one of several component models, alone; None: the package as a whole.
        trust: accept options of the package that can reach beyond it.
        verify: compare with digests.json what is loaded.
        canary: first try each variant in a child process, and take the next where it fails there.
        allow_fallback: others may run a model if what was named takes no node of it.
        isolate: run onnxruntime, OpenVINO and plug-ins in child processes.
        threads: how many work within an operator; None: one per CPU.
        batch_latency_s: requests are joined as long as they are answered within so long; None: they
            are not.
    """

    name: str | None = None
    selection: SelectionWishes = ANY_VARIANT
    component: str | None = None
    trust: bool = False
    verify: bool = True
    canary: bool = False
    allow_fallback: bool = False
    isolate: bool = False
    threads: int | None = None
    batch_latency_s: float | None = None
