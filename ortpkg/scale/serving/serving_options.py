"""Options of a server."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ortpkg.selection.matching.wishes import ANY_VARIANT, SelectionWishes

DEFAULT_TIMEOUT_S = 60.0
#: Largest body of a request, and largest gRPC message.
DEFAULT_REQUEST_NBYTES = 64 << 20
DEFAULT_WAITING = 100
DEFAULT_CONNECTIONS = 1000
DEFAULT_DRAIN_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingLimits:
    """Limits of requests.

    Attributes:
        concurrency: Requests that run at the same time.
        most_waiting: Requests that wait for that; the next is told to retry later.
        timeout_s: Time of one request, including its wait, in seconds.
        memory_limit_nbytes: Memory of one run, see :class:`~ortpkg.RunOptions`; None for the
            machine's.
        request_nbytes: Size of one request.
        connections: Clients that may be connected by each protocol.
        drain_s: Time that requests may continue after the server was told to end, in seconds.
    """

    concurrency: int
    most_waiting: int = DEFAULT_WAITING
    timeout_s: float = DEFAULT_TIMEOUT_S
    memory_limit_nbytes: int | None = None
    request_nbytes: int = DEFAULT_REQUEST_NBYTES
    connections: int = DEFAULT_CONNECTIONS
    drain_s: float = DEFAULT_DRAIN_S


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenOptions:
    """Address of a server, and who may use it.

    Attributes:
        host: Name or address; the default is reachable only from this machine.
        port, grpc_port: Ports; 0 for a free one.
        certificate, private_key: PEM files; with them all connections are encrypted.
        token: Bearer token that clients must send; None to answer everybody.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    grpc_port: int = 8081
    certificate: Path | None = None
    private_key: Path | None = None
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadWishes:
    """Options of loading a package to serve it.

    Attributes:
        name: Name for clients; None for the installed or stated one.
        selection: Options of the selection of variants.
        component: One of several component models; None for the whole package.
        trust: True to accept options of the package that can reach beyond it.
        verify: True to compare what is loaded with digests.json.
        canary: True to try each variant in a child process first, and take the next if it fails.
        allow_fallback: True to let others run a model if the named one takes no node of it.
        isolate: True to run onnxruntime, OpenVINO and plug-ins in child processes.
        threads: Threads within an operator; None for one per CPU.
        batch_latency_s: Time in which joined requests must be answered, in seconds; None to not
            join.
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
