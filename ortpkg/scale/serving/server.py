"""Server of the protocol over HTTP, on uvicorn, and over gRPC, each on its own port."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any

from ortpkg.foundations.errors import CancelledError, UsageError, quoted, unquoted
from ortpkg.scale.serving.answering import Answering
from ortpkg.scale.serving.http_limits import GuardedApplication
from ortpkg.scale.serving.observer import Observer
from ortpkg.scale.serving.served_versions import ServedVersions
from ortpkg.scale.serving.server_libraries import load_server_libraries
from ortpkg.scale.serving.server_log import log_event, log_warning
from ortpkg.scale.serving.serving_options import ListenOptions, ServingLimits

#: Time that an idle connection stays open, in seconds.
_KEEP_ALIVE_S = 65
_GRPC_GRACE_S = 1.0
_BACKLOG = 2048
#: Open files besides connections: libraries, models, caches.
_OTHER_FILES = 1024


def serve(
    load: Callable[[Observer], None],
    listen: ListenOptions,
    limits: ServingLimits,
    versions: ServedVersions,
    on_ready: Callable[[str, str], None],
    *,
    logs_requests: bool = False,
) -> bool:
    """Serve until the process is told to end (SIGTERM, SIGINT), then finish running requests.

    Args:
        load: Adds the models to ``versions``; meanwhile the server is alive and not ready. It gets
            the observer of the models.
        listen: Address and ports.
        limits: Limits of requests.
        versions: The models.
        on_ready: Called with the URL of HTTP and host:port of gRPC when every model is loaded.
        logs_requests: True to log every request, not only refused ones.

    Returns:
        True if all running requests ended in time; otherwise threads continue.

    Raises:
        MissingExtraError: A library of the extra ``serve`` is missing.
        UsageError: The server cannot listen there.
        CancelledError: The process is told to end before the models are loaded.
        Exception: Any error of ``load``.
    """
    load_server_libraries()
    server = _Server(listen, limits, versions, logs_requests=logs_requests)
    with asyncio.Runner(loop_factory=server.loop_factory) as runner:
        return runner.run(server.serve(load, on_ready))


class _Server:
    def __init__(
        self,
        listen: ListenOptions,
        limits: ServingLimits,
        versions: ServedVersions,
        *,
        logs_requests: bool,
    ) -> None:
        import uvicorn  # it and the others are an extra's, and come after load_server_libraries

        from ortpkg.scale.serving.http_endpoints import make_protocol_application
        from ortpkg.scale.serving.prometheus_metrics import PrometheusObserver
        from ortpkg.scale.serving.server_connections import (
            BoundedConnection,
            HttpServer,
            OpenConnections,
        )

        self._listen, self._limits, self._versions = listen, limits, versions
        self._logs_requests = logs_requests
        self._is_ready = False  # until every model has had its first run, and after the end begins
        self._answering = Answering(limits)
        self._observer = PrometheusObserver(lambda: self._answering.open_requests)
        self._answering.observer = self._observer
        connections = OpenConnections(limits.connections, limits.timeout_s)
        application = GuardedApplication(
            make_protocol_application(
                versions,
                self._answering,
                is_ready=lambda: self._is_ready,
                metrics=self._observer.page,
            ),
            limits,
            token=listen.token,
            logs_requests=logs_requests,
            on_response=partial(self._observer.responded, "http"),
            unsent_nbytes=lambda: connections.unsent_nbytes,
        )
        self._config = uvicorn.Config(
            application,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=max(1, round(limits.drain_s)),
            http=partial(BoundedConnection, connections),
            ssl_certfile=listen.certificate,
            ssl_keyfile=listen.private_key,
            ssl_keyfile_password="",  # otherwise OpenSSL asks for one at the terminal
        )
        self._http_server = partial(HttpServer, self._config, connections)
        self.loop_factory = self._config.get_loop_factory()
        with _as_usage_error("the certificate or its key cannot be used"):
            self._config.load()

    async def serve(
        self, load: Callable[[Observer], None], on_ready: Callable[[str, str], None]
    ) -> bool:
        """Listen, have the models loaded, and answer requests until the process is to end."""
        _allow_files(self._limits.connections)
        with _bound(self._listen) as listener, _Stop() as stop:
            http = self._http_server(listener)
            grpc_server, grpc_port = await self._start_grpc()
            serving = asyncio.create_task(http.serve([listener]))
            try:
                await self._load(partial(load, self._observer), stop)
                self._versions.is_complete = True
                self._is_ready = True
                on_ready(*self._addresses(listener, grpc_port))
                await stop.wait()
                self._is_ready = False
                log_event("ending", open_requests=self._answering.open_requests)
                is_done = await self._drain(stop)
                log_event("ended", finished_all=is_done)
                return is_done
            finally:
                http.should_exit = True
                await serving
                await grpc_server.stop(_GRPC_GRACE_S)

    async def _drain(self, stop: _Stop) -> bool:
        """Wait for running requests, unless the process is told to end a second time."""
        hurried = asyncio.create_task(stop.wait(2))
        drained = asyncio.create_task(self._answering.drain())
        await asyncio.wait({hurried, drained}, return_when=asyncio.FIRST_COMPLETED)
        if hurried.done():
            self._answering.hurry()
        hurried.cancel()
        return await drained

    async def _load(self, load: Callable[[], None], stop: _Stop) -> None:
        """Load on a separate thread, for which an end of the process does not wait."""
        loop = asyncio.get_running_loop()
        loaded: asyncio.Future[None] = loop.create_future()

        def tell(error: BaseException | None) -> None:
            if loaded.done():
                return
            if error is None:
                loaded.set_result(None)
            else:
                loaded.set_exception(error)

        def work() -> None:
            failure: BaseException | None = None
            try:
                load()
            except BaseException as error:  # noqa: BLE001 - raised by who waits for it
                failure = error
            with contextlib.suppress(RuntimeError):  # the loop is closed, so nobody waits
                loop.call_soon_threadsafe(tell, failure)

        threading.Thread(target=work, name="ortpkg-serving-load", daemon=True).start()
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({loaded, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not loaded.done():
            loaded.cancel()
            raise CancelledError("the server was told to end before its models were loaded")
        loaded.result()

    async def _start_grpc(self) -> tuple[Any, int]:
        from ortpkg.scale.serving.grpc_server import add_port, make_grpc_server  # as uvicorn above
        from ortpkg.scale.serving.grpc_service import InferenceService

        service = InferenceService(self._versions, self._answering, lambda: self._is_ready)
        server = make_grpc_server(
            service, self._limits, self._listen.token, logs_requests=self._logs_requests
        )
        address = _joined(self._listen.host, self._listen.grpc_port)
        try:
            port = add_port(server, address, self._listen)
        except RuntimeError as error:  # grpc gives no more details
            raise UsageError(
                f"cannot listen on {quoted(address)}: the port is taken, or the address is not one"
                " of this machine"
            ) from error
        await server.start()
        return server, port

    def _addresses(self, listener: socket.socket, grpc_port: int) -> tuple[str, str]:
        host, port = listener.getsockname()[:2]
        scheme = "http" if self._listen.certificate is None else "https"
        return f"{scheme}://{_joined(host, port)}", _joined(host, grpc_port)


class _Stop:
    """Receiver of the signals that end the process, which do nothing else meanwhile."""

    def __init__(self) -> None:
        self._signal_count = 0
        self._heard = asyncio.Condition()
        self._before: dict[signal.Signals, Any] = {}
        self._notes: set[asyncio.Task[None]] = set()

    async def wait(self, count: int = 1) -> None:
        """Wait until that many signals have arrived."""
        async with self._heard:
            await self._heard.wait_for(lambda: self._signal_count >= count)

    def __enter__(self) -> _Stop:
        loop = asyncio.get_running_loop()

        def hear(_signal: int, _frame: FrameType | None) -> None:
            loop.call_soon_threadsafe(lambda: self._notes.add(loop.create_task(self._note())))

        for kind in (signal.SIGINT, signal.SIGTERM):
            self._before[kind] = signal.signal(kind, hear)
        return self

    async def _note(self) -> None:
        async with self._heard:
            self._signal_count += 1
            self._heard.notify_all()

    def __exit__(self, *_raised: object) -> None:
        for kind, handler in self._before.items():
            signal.signal(kind, handler)


@contextlib.contextmanager
def _bound(listen: ListenOptions) -> Iterator[socket.socket]:
    """Yield a socket that listens for HTTP.

    Raises:
        UsageError: The server cannot listen there.
    """
    with _as_usage_error(f"cannot listen on {quoted(_joined(listen.host, listen.port))}"):
        family = socket.getaddrinfo(listen.host, listen.port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((listen.host, listen.port), family=family, backlog=_BACKLOG)
    with listener:
        yield listener


@contextlib.contextmanager
def _as_usage_error(what: str) -> Iterator[None]:
    try:
        yield
    except (socket.gaierror, ssl.SSLError) as error:
        raise UsageError(f"{what}: {unquoted(error.strerror or error)}") from error
    except OSError as error:  # its own text repeats the address
        raise UsageError(f"{what}: {os.strerror(error.errno or 0)}") from error


def _allow_files(connections: int) -> None:
    """Raise the limit of open files to what that many connections of each protocol need."""
    try:
        import resource  # not on Windows
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * connections + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        if most < wanted:
            log_warning(
                "files",
                message=f"this process may have {most} files open, and {connections} connections of"
                f" each protocol may take {wanted}",
            )


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
