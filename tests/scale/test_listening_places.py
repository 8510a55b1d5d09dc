"""Sockets of every server that we start: on the loopback interface, unless the caller says more."""

from __future__ import annotations

import ipaddress
import json
import subprocess
import sys

import psutil
import pytest

from tests.scale.ray_clusters import DIGITS, ROOT
from tests.scale.serving_processes import serving

pytestmark = [
    pytest.mark.scale,
    pytest.mark.shows("serving"),
    pytest.mark.timeout(600),
]

#: Prints what the processes of a cluster of our own listen on, and whether it asks for a token.
CLUSTER = """
import json, os
import psutil
from ortpkg.ray.cluster import cluster

with cluster(None, 1) as ray:
    ray.get(ray.remote(lambda: 1).remote())
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    listening = [
        [process.name(), at.laddr.ip]
        for process in processes
        for at in process.connections(kind="inet")
        if at.status == psutil.CONN_LISTEN
    ]
    mode, token = os.environ["RAY_AUTH_MODE"], os.environ["RAY_AUTH_TOKEN"]
    print(json.dumps({"listening": listening, "mode": mode, "token": len(token)}))
"""


def is_loopback(text: str) -> bool:
    address = ipaddress.ip_address(text)
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def test_a_cluster_of_our_own_is_on_loopback_alone_and_asks_for_a_token() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CLUSTER],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert {name for name, _ in found["listening"]} >= {"gcs_server", "raylet"}
    assert [each for each in found["listening"] if not is_loopback(each[1])] == []
    assert (found["mode"], found["token"]) == ("token", 64)


def test_a_server_is_on_loopback_alone_with_grpc_and_metrics() -> None:
    with serving(str(DIGITS)) as server:
        process = psutil.Process(server.process.pid)
        listening = [
            at.laddr.ip
            for each in (process, *process.children(recursive=True))
            for at in each.connections(kind="inet")
            if at.status == psutil.CONN_LISTEN
        ]
        assert len(listening) >= 2
        assert [each for each in listening if not is_loopback(each)] == []
