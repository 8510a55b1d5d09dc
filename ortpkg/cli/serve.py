"""``ortpkg serve``: packages as models that answer requests over HTTP and gRPC."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ortpkg.authoring.opening import opened
from ortpkg.cli.package_argument import Use, package_parser
from ortpkg.cli.parameters import (
    BackendOption,
    ComponentOption,
    DeviceOption,
    EpOption,
    JsonOption,
    PolicyOption,
    TrustOption,
    TrustPolicyOption,
    VariantOption,
)
from ortpkg.cli.quantity_arguments import duration_argument, nbytes_argument
from ortpkg.cli.rendering import Output, is_quiet
from ortpkg.cli.run_options import ThreadsOption, VerifyOption
from ortpkg.errors import ExitCode
from ortpkg.host.cores import usable_cores
from ortpkg.selection.wishes import SelectionWishes
from ortpkg.trust.policy_place import policy_in_use

if TYPE_CHECKING:
    from ortpkg.package.package_info import PackageInfo
    from ortpkg.serving.loading import Loaded
    from ortpkg.serving.served_versions import ServedVersions

ServedArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="PKG",
        help=(
            "The packages: folders (name.ortpackage), names in the store, digits:2 for a version,"
            " oci://host/repository:tag, ONNX files ..."
        ),
        parser=package_parser(Use.RUN_SAMPLES),
    ),
]
HostOption = Annotated[
    str,
    typer.Option(
        "--host", metavar="H", help="Where to listen; 0.0.0.0 is reached from other machines."
    ),
]
PortOption = Annotated[
    int,
    typer.Option("--port", metavar="N", help="For HTTP; 0: one that is free.", min=0, max=65535),
]
GrpcPortOption = Annotated[
    int,
    typer.Option(
        "--grpc-port", metavar="N", help="For gRPC; 0: one that is free.", min=0, max=65535
    ),
]
ConcurrencyOption = Annotated[
    int | None,
    typer.Option(
        "--concurrency",
        metavar="N",
        help="Requests that run at the same time; default: one per CPU.",
        min=1,
        max=4096,
    ),
]
QueueOption = Annotated[
    int,
    typer.Option(
        "--max-queue",
        metavar="N",
        help="Requests that may wait; the next are answered with 429.",
        min=0,
    ),
]
RequestTimeoutOption = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="T",
        help="Time that a request may take, waiting included: 90s, 500ms (alone: seconds).",
        parser=duration_argument,
    ),
]
RequestMemoryOption = Annotated[
    int | None,
    typer.Option(
        "--memory-limit",
        metavar="SIZE",
        help=(
            "Memory that a run may take, weights included: 500MB, 1.5GiB. Default: the machine's."
        ),
        parser=nbytes_argument,
    ),
]
RequestSizeOption = Annotated[
    int,
    typer.Option(
        "--max-request",
        metavar="SIZE",
        help="Of a request's body: 64MiB, 500kB; a number alone is bytes.",
        parser=nbytes_argument,
    ),
]
IsolateOption = Annotated[
    bool,
    typer.Option(
        "--isolate/--no-isolate",
        help=(
            "Run onnxruntime, OpenVINO and plug-ins in child processes, so that a crash of theirs"
            " is an answer; runs of one model take turns then."
        ),
    ),
]
LogRequestsOption = Annotated[
    bool,
    typer.Option("--log-requests", help="Log every request, not only those that are refused."),
]


def command(
    packages: ServedArgument,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8080,
    grpc_port: GrpcPortOption = 8081,
    concurrency: ConcurrencyOption = None,
    max_queue: QueueOption = 100,
    timeout: RequestTimeoutOption = 60.0,
    memory_limit: RequestMemoryOption = None,
    max_request: RequestSizeOption = 64 << 20,
    component: ComponentOption = None,
    variant: VariantOption = None,
    device: DeviceOption = None,
    ep: EpOption = None,
    policy: PolicyOption = "default",
    backend: BackendOption = "auto",
    threads: ThreadsOption = None,
    isolate: IsolateOption = False,
    verify: VerifyOption = True,
    trust: TrustOption = False,
    trust_policy: TrustPolicyOption = None,
    log_requests: LogRequestsOption = False,
    as_json: JsonOption = False,
) -> int:
    """Answer requests with packages, by the Open Inference Protocol (v2).

    Says where it listens once every model has run; SIGTERM and Ctrl-C let it finish what runs.
    Nobody but this machine reaches it unless --host says so.
    """
    from ortpkg.serving.kserve_server import Addresses, serve  # numpy, onnx
    from ortpkg.serving.loading import load
    from ortpkg.serving.served_versions import ServedVersions
    from ortpkg.serving.server_log import log_event, logged
    from ortpkg.serving.serving_options import ListeningPlace, LoadWishes, ServingLimits

    output = Output(is_json=as_json)
    limits = ServingLimits(
        concurrency=concurrency or usable_cores(),
        most_waiting=max_queue,
        timeout_s=timeout,
        memory_limit_nbytes=memory_limit,
        request_nbytes=max_request,
    )
    wishes = LoadWishes(
        selection=SelectionWishes(
            variant=variant, device=device, ep=ep, backend=backend, policy=policy
        ),
        component=component,
        trust=trust,
        verify=verify,
        isolate=isolate,
        threads=threads,
    )

    def load_all(versions: ServedVersions) -> None:
        with policy_in_use(trust_policy):
            for info in infos:
                loaded = load(info, wishes, limits)
                versions.add(loaded.model)
                _log_loaded(loaded)

    def say(addresses: Addresses) -> None:
        log_event("ready", http=addresses.http, grpc=addresses.grpc)
        if as_json:
            told = {"http": addresses.http, "grpc": addresses.grpc}
            output.json("serve", {**told, "models": [each.title for each in versions]})
        else:
            output.line(f"HTTP {addresses.http}, gRPC {addresses.grpc}")
        sys.stdout.flush()

    versions = ServedVersions()
    with (
        logged(is_json=as_json or not sys.stderr.isatty(), is_quiet=is_quiet()),
        ExitStack() as stack,
    ):
        infos: list[PackageInfo] = [stack.enter_context(opened(each)) for each in packages]
        serve(
            load_all,
            ListeningPlace(host=host, port=port, grpc_port=grpc_port),
            limits,
            versions,
            say,
            logs_requests=log_requests,
        )
    return ExitCode.DONE


def _log_loaded(loaded: Loaded) -> None:
    from ortpkg.serving.server_log import log_event

    model, first_run = loaded.model, loaded.first_run
    log_event(
        "loaded",
        model=model.name,
        version=model.version,
        variants=[f"{each.component}/{each.variant}" for each in model.variants],
        first_run=first_run.on,
        matches=first_run.matches,
        duration_s=round(loaded.duration_s, 3),
    )
