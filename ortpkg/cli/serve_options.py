"""Options of ``ortpkg serve``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ortpkg.cli.package_argument import Use, package_parser
from ortpkg.cli.quantity_arguments import duration_argument, nbytes_argument, whole_number

ServedArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="PKG",
        help=(
            "The packages: folders, names in the store (digits:2: a version),"
            " oci://host/repository:tag, ONNX files."
        ),
        parser=package_parser(Use.RUN_SAMPLES),
    ),
]
NameOption = Annotated[
    str | None,
    typer.Option(
        "--name",
        metavar="NAME",
        help="Name by which clients ask for the package, where there is one; default: its own.",
    ),
]
HostOption = Annotated[
    str,
    typer.Option(
        "--host", metavar="H", help="Address to listen on; 0.0.0.0 is reached from other machines."
    ),
]
PortOption = Annotated[
    int,
    typer.Option(
        "--port", metavar="N", help="Port of HTTP; 0: a free one.", parser=whole_number(0, 65535)
    ),
]
GrpcPortOption = Annotated[
    int,
    typer.Option(
        "--grpc-port",
        metavar="N",
        help="Port of gRPC; 0: a free one.",
        parser=whole_number(0, 65535),
    ),
]
ConcurrencyOption = Annotated[
    int | None,
    typer.Option(
        "--concurrency",
        metavar="N",
        help="Requests that run at the same time; default: one per CPU.",
        parser=whole_number(1, 4096),
    ),
]
QueueOption = Annotated[
    int,
    typer.Option(
        "--max-queue",
        metavar="N",
        help="Requests that may wait; the next are answered with 429.",
        parser=whole_number(0),
    ),
]
ConnectionsOption = Annotated[
    int,
    typer.Option(
        "--max-connections",
        metavar="N",
        help=(
            "Clients that may be connected by each protocol; over HTTP one more takes the place of"
            " one that says nothing, else it gets 503."
        ),
        parser=whole_number(1, 1_000_000),
    ),
]
RequestTimeoutOption = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="T",
        help="Time that a request may take, waiting included: 90s, 500ms. Default: 60s.",
        show_default=False,
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
        help="Largest body of a request: 64MiB, 500kB; a number alone is bytes. Default: 64MiB.",
        show_default=False,
        parser=nbytes_argument,
    ),
]
BatchLatencyOption = Annotated[
    float | None,
    typer.Option(
        "--batch-latency",
        metavar="T",
        help=(
            "Join requests that wait into one run, of as many rows as answers within this time"
            " allow: 20ms. Default: never."
        ),
        parser=duration_argument,
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
DefaultVersionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--default-version",
        metavar="NAME=VERSION",
        help="The version that answers where none is asked for; default: the newest. Repeatable.",
    ),
]
CertificateOption = Annotated[
    Path | None,
    typer.Option(
        "--ssl-certfile", metavar="FILE", help="Encrypt, with this certificate (chain) in PEM."
    ),
]
PrivateKeyOption = Annotated[
    Path | None,
    typer.Option("--ssl-keyfile", metavar="FILE", help="Private key of the certificate, in PEM."),
]
TokenFileOption = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="Ask clients for the bearer token in this file; health needs none.",
    ),
]
