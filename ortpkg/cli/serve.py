"""``ortpkg serve``: serves packages as models over HTTP and gRPC."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ortpkg.authoring.opening import opened
from ortpkg.cli.choice_options import VariantChoice
from ortpkg.cli.parameters import TrustOption, TrustPolicyOption, parse_options
from ortpkg.cli.rendering import Output, OutputError, is_quiet
from ortpkg.cli.run_guard import end_process
from ortpkg.cli.run_options import AllowFallbackOption, CanaryOption, ThreadsOption, VerifyOption
from ortpkg.cli.serve_options import (
    BatchLatencyOption,
    CertificateOption,
    ConcurrencyOption,
    ConnectionsOption,
    DefaultVersionOption,
    GrpcPortOption,
    HostOption,
    IsolateOption,
    LogRequestsOption,
    NameOption,
    PortOption,
    PrivateKeyOption,
    QueueOption,
    RequestMemoryOption,
    RequestSizeOption,
    RequestTimeoutOption,
    ServedArgument,
    TokenFileOption,
)
from ortpkg.foundations.errors import ExitCode, LimitExceededError, UsageError, quoted
from ortpkg.foundations.host.cores import usable_cores
from ortpkg.foundations.quantities import time_limit_text
from ortpkg.package.reader import open_package
from ortpkg.package.trust.policy_place import policy_in_use

if TYPE_CHECKING:
    from ortpkg.package.package_info import PackageInfo
    from ortpkg.scale.serving.loading import Loaded
    from ortpkg.scale.serving.observer import Observer
    from ortpkg.scale.serving.renewal import Renewal, Renewed
    from ortpkg.scale.serving.serving_options import ListenOptions, LoadWishes, ServingLimits


def command(
    output: Output,
    packages: ServedArgument,
    name: NameOption = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8080,
    grpc_port: GrpcPortOption = 8081,
    default_version: DefaultVersionOption = None,
    concurrency: ConcurrencyOption = None,
    max_queue: QueueOption = 100,
    max_connections: ConnectionsOption = 1000,
    timeout: RequestTimeoutOption = 60.0,
    memory_limit: RequestMemoryOption = None,
    max_request: RequestSizeOption = 64 << 20,
    ssl_certfile: CertificateOption = None,
    ssl_keyfile: PrivateKeyOption = None,
    token_file: TokenFileOption = None,
    *,
    choice: VariantChoice,
    threads: ThreadsOption = None,
    batch_latency: BatchLatencyOption = None,
    canary: CanaryOption = False,
    allow_fallback: AllowFallbackOption = False,
    isolate: IsolateOption = False,
    verify: VerifyOption = True,
    trust: TrustOption = False,
    trust_policy: TrustPolicyOption = None,
    log_requests: LogRequestsOption = False,
) -> int:
    """Answer requests with packages, by the Open Inference Protocol (v2).

    Says where it listens once every model has run; SIGTERM and Ctrl-C let it finish what runs.
    Nobody but this machine reaches it unless --host says so.
    """
    from ortpkg.scale.serving.serving_options import LoadWishes, ServingLimits  # as in _serve

    if name is not None and len(packages) != 1:
        raise UsageError(f"--name {quoted(name)}: several packages cannot have one name")
    wishes = LoadWishes(
        name=name,
        selection=choice.wishes(),
        component=choice.component,
        trust=trust,
        verify=verify,
        canary=canary,
        allow_fallback=allow_fallback,
        isolate=isolate,
        threads=threads,
        batch_latency_s=batch_latency,
    )
    limits = ServingLimits(
        concurrency=concurrency or usable_cores(),
        most_waiting=max_queue,
        connections=max_connections,
        timeout_s=timeout,
        memory_limit_nbytes=memory_limit,
        request_nbytes=max_request,
    )
    server = _Server(
        output,
        wishes,
        limits,
        parse_options("--default-version", default_version, form="NAME=VERSION"),
        trust_policy,
    )
    listen = _listen_options(host, port, grpc_port, (ssl_certfile, ssl_keyfile), token_file)
    return server.serve(packages, listen, logs_requests=log_requests)


def _listen_options(
    host: str,
    port: int,
    grpc_port: int,
    encryption: tuple[Path | None, Path | None],
    token_file: Path | None,
) -> ListenOptions:
    from ortpkg.scale.serving.bearer_token import read_token
    from ortpkg.scale.serving.serving_options import ListenOptions

    certificate, private_key = encryption
    if (certificate is None) is not (private_key is None):
        raise UsageError("--ssl-certfile and --ssl-keyfile are given together")
    return ListenOptions(
        host=host,
        port=port,
        grpc_port=grpc_port,
        certificate=certificate,
        private_key=private_key,
        token=None if token_file is None else read_token(token_file),
    )


class _Server:
    """One ``ortpkg serve``: packages, how they are loaded, and limits of requests."""

    def __init__(
        self,
        output: Output,
        wishes: LoadWishes,
        limits: ServingLimits,
        defaults: dict[str, str],
        trust_policy: Path | None,
    ) -> None:
        from ortpkg.scale.serving.served_versions import ServedVersions

        self._output, self._wishes, self._limits = output, wishes, limits
        self._trust_policy = trust_policy
        self._versions = ServedVersions(defaults)
        self._renewal: Renewal | None = None

    def serve(self, roots: Sequence[Path], listen: ListenOptions, *, logs_requests: bool) -> int:
        """Serve until the process is told to end, and return the exit code."""
        # These imports load numpy and onnx.
        from ortpkg.package.trust.trust_policy_file import read_policy
        from ortpkg.scale.serving.loading import name_and_version
        from ortpkg.scale.serving.server import serve
        from ortpkg.scale.serving.server_log import logged

        if self._trust_policy is not None:
            read_policy(self._trust_policy)  # it must be valid, even if nothing uses it
        is_json = self._output.is_json or not sys.stderr.isatty()
        with logged(is_json=is_json, is_quiet=is_quiet()), ExitStack() as stack:
            infos = [stack.enter_context(opened(root)) for root in roots]
            planned = [name_and_version(info) for info in infos]
            self._versions.check_plan(
                [(self._wishes.name or name, version) for name, version in planned]
            )
            has_finished = serve(
                lambda observer: self._load(infos, observer),
                listen,
                self._limits,
                self._versions,
                self._announce,
                logs_requests=logs_requests,
            )
            if self._renewal is not None:
                self._renewal.stop()
        if not has_finished:
            drain = time_limit_text(self._limits.drain_s)
            error = LimitExceededError(f"requests did not end within {drain}", limit="time")
            end_process(error, self._output)  # does not wait for threads that still compute
        return ExitCode.DONE

    def _load(self, infos: Sequence[PackageInfo], observer: Observer) -> None:
        from ortpkg.scale.serving.load_log import log_loaded
        from ortpkg.scale.serving.renewal import Renewal

        def load_folder(root: Path) -> Loaded:
            return self._load_package(open_package(root), observer)

        renewal = Renewal(self._versions, load_folder, _log_renewed)
        for info in infos:
            loaded = self._load_package(info, observer)
            self._versions.add(loaded.model)
            log_loaded(loaded)
            renewal.follow(info.root, loaded.model)
        renewal.start()
        self._renewal = renewal

    def _load_package(self, info: PackageInfo, observer: Observer) -> Loaded:
        from ortpkg.scale.serving.loading import load

        with policy_in_use(self._trust_policy):
            loaded = load(info, self._wishes, self._limits)
        loaded.model.report_runs(observer.loaded(loaded.model))
        return loaded

    def _announce(self, http: str, grpc: str) -> None:
        from ortpkg.scale.serving.server_log import log_event

        log_event("ready", http=http, grpc=grpc)
        with suppress(OSError, OutputError):  # nobody reads it; the log has it, too
            if self._output.is_json:
                models = [
                    {"name": model.name, "version": model.version} for model in self._versions
                ]
                self._output.json("serve", {"http": http, "grpc": grpc, "models": models})
            else:
                self._output.line(f"HTTP on {http}, gRPC on {grpc}")
            sys.stdout.flush()


def _log_renewed(renewed: Renewed) -> None:
    from ortpkg.scale.serving.load_log import log_loaded
    from ortpkg.scale.serving.server_log import log_event, log_warning

    what = {"model": renewed.before, "installation": renewed.installed.number}
    if renewed.loaded is None:
        log_warning("kept", **what, message=f"the newer one is not served: {renewed.problem}")
        return
    log_loaded(renewed.loaded)
    log_event("renewed", **what, now=renewed.loaded.model.title)
