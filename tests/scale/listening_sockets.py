"""Lists the sockets that a process tree listens on, and sends requests without a token."""

from __future__ import annotations

import http.client
import ipaddress
from contextlib import closing, suppress
from dataclasses import dataclass

import grpc
import psutil

#: Of each service of Ray, one; a port that has none of them is not known here.
_METHODS = (
    "/ray.rpc.JobInfoGcsService/GetAllJobInfo",
    "/ray.rpc.NodeManagerService/RequestWorkerLease",
    "/ray.rpc.CoreWorkerService/PushTask",
    "/ray.rpc.ObjectManagerService/Pull",
    "/ray.rpc.ReporterService/GetTraceback",
    "/ray.serve.ASGIService/HandleRequest",
)
_WAIT_S = 20
#: What a stranger may have: pages of figures, and a refusal.
FIGURES, REFUSED = "figures", "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListeningSocket:
    """Listening socket, with the name of the process that owns it."""

    process: str
    address: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Return True if only this machine can reach it."""
        address = ipaddress.ip_address(self.address)
        return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def listening_sockets(pid: int) -> list[ListeningSocket]:
    """Return the listening sockets of a process and its descendants."""
    sockets = []
    process = psutil.Process(pid)
    for owner in (process, *process.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            sockets += [
                ListeningSocket(process=owner.name(), address=at.laddr.ip, port=at.laddr.port)
                for at in owner.connections(kind="inet")
                if at.status == psutil.CONN_LISTEN
            ]
    return sockets


def answer_to_stranger(port: int) -> str:
    """Send a job without a token; return FIGURES, REFUSED, or another answer."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=_WAIT_S)
    with closing(client):
        try:
            client.request("POST", "/api/jobs/", '{"entrypoint": "true"}')
            status = client.getresponse().status
        except (http.client.BadStatusLine, ConnectionResetError):  # it speaks HTTP/2
            return _answer_of_grpc(port)
    return {401: REFUSED, 405: FIGURES}.get(status, f"HTTP {status}")


def _answer_of_grpc(port: int) -> str:
    codes = set()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        for method in _METHODS:
            try:
                channel.unary_unary(method)(b"", timeout=_WAIT_S)
                codes.add("OK")
            except grpc.RpcError as error:
                codes.add(error.code().name)
    return REFUSED if codes == {"UNIMPLEMENTED", "UNAUTHENTICATED"} else f"gRPC {sorted(codes)}"
