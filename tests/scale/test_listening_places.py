"""Sockets of every server that we start: on the loopback interface, unless the caller says more."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.scale.listening_sockets import (
    FIGURES,
    REFUSED,
    ListeningSocket,
    answer_to_stranger,
    listening_sockets,
)
from tests.scale.ray_clusters import DIGITS, ROOT
from tests.scale.serving_processes import serving

pytestmark = [
    pytest.mark.scale,
    pytest.mark.shows("serving"),
    pytest.mark.timeout(600),
]

#: A cluster of our own with workers, as a batch has it.
CLUSTER = """
import os
from ortpkg.scale.ray.cluster import cluster

with cluster(None, 1) as ray:
    ray.get(ray.remote(lambda: 1).remote())
    print(os.environ["RAY_AUTH_MODE"], len(os.environ["RAY_AUTH_TOKEN"]), flush=True)
    input()
"""
#: The recipe of the page, on a port that is free.
SERVE = """
from ray import serve

serve.start(http_options={{"port": {port}}})
{recipe}
print("ready", flush=True)
input()
"""
_START_S = 120


@contextmanager
def running(code: str, **variables: str) -> Iterator[tuple[int, str]]:
    """A Python program that prints a line and waits; its process and the line."""
    inherited = {name: text for name, text in os.environ.items() if not name.startswith("RAY_")}
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**inherited, **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = next((line for line in process.stdout if "INFO" not in line), "")
        yield process.pid, line.strip()
        process.communicate("\n", _START_S)
    finally:
        process.kill()
        process.communicate()


def sockets_with(
    pid: int, is_complete: Callable[[list[ListeningSocket]], bool]
) -> list[ListeningSocket]:
    """Return the sockets once all are there that are to be; AssertionError if they do not come."""
    deadline = time.monotonic() + _START_S
    while not is_complete(sockets := listening_sockets(pid)):
        assert time.monotonic() < deadline, sockets
        time.sleep(0.5)
    return sockets


def has_agents(sockets: list[ListeningSocket]) -> bool:
    """Return whether all of a node's processes listen; the agents are the last of them."""
    names = [at.process for at in sockets]
    workers = any(name.startswith("ray::") and "Agent" not in name for name in names)
    return (
        workers
        and {"gcs_server", "raylet", "ray::RuntimeEnvAgent"} <= {*names}
        and names.count("ray::DashboardAgent") >= 3
    )


def answers(sockets: list[ListeningSocket]) -> dict[ListeningSocket, str]:
    return {at: answer_to_stranger(at.port) for at in sockets}


def test_a_cluster_of_our_own_is_on_loopback_alone_and_refuses_strangers() -> None:
    with running(CLUSTER) as (pid, line):
        assert line == "token 64"
        sockets = sockets_with(pid, has_agents)
        assert [at for at in sockets if not at.is_loopback] == []
        of_strangers = answers(sockets)
        assert {*of_strangers.values()} == {REFUSED, FIGURES}, of_strangers
        writable = {at.process for at, answer in of_strangers.items() if answer != FIGURES}
        assert writable >= {"gcs_server", "raylet", "ray::DashboardAgent", "ray::RuntimeEnvAgent"}


def page_block(language: str) -> str:
    """Return the first block of a language in the page's part for Ray."""
    page = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    section = page.partition("\n## On a Ray cluster\n")[2]
    (block, *_) = re.findall(rf"^```{language}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return str(block)


def test_ray_serve_as_the_page_starts_it_refuses_strangers_all_but_at_its_proxy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = listener.getsockname()[1]
    recipe = page_block("python").replace('"digits:2"', repr(str(DIGITS)))
    recipe = recipe.replace('"num_replicas": 4', '"num_replicas": 1')
    settings = dict(re.findall(r"(RAY_\w+)=(\w+)", page_block("sh")))
    assert settings.keys() >= {"RAY_AUTH_MODE", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"}
    code = SERVE.format(port=proxy, recipe=recipe)
    with running(code, **settings, RAY_AUTH_TOKEN="b" * 64) as (pid, line):
        assert line == "ready"
        sockets = sockets_with(pid, has_agents)
        of_strangers = answers([at for at in sockets if at.port != proxy])
        assert {*of_strangers.values()} == {REFUSED, FIGURES}, of_strangers
        # Ray has no setting for the port by which its replicas are called; the page says so.
        outside = [at for at in sockets if not at.is_loopback]
        assert all(at.process.startswith("ray::ServeReplica") for at in outside), outside
        assert len(outside) <= 1
        assert all(of_strangers[at] == REFUSED for at in outside)


def test_a_server_is_on_loopback_alone_with_grpc_and_metrics() -> None:
    with serving(str(DIGITS)) as server:
        sockets = listening_sockets(server.process.pid)
        assert len(sockets) >= 2
        assert [at for at in sockets if not at.is_loopback] == []
