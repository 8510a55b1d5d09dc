"""Clients that others wrote carry every datatype: tritonclient's four, and KServe's two."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
from typing import Any

import pytest
import tritonclient.grpc
import tritonclient.grpc.aio
import tritonclient.http
import tritonclient.http.aio

from tests.scale.protocol_rows import BINARY_ONLY
from tests.scale.protocol_values import SHAPES, VALUES, check_same
from tests.scale.serving_processes import ROOT, Serving

pytestmark = [
    pytest.mark.scale,
    pytest.mark.shows("clients of others"),
    pytest.mark.timeout(600),
]


@pytest.fixture(params=[f"{datatype}, {shape}" for datatype in VALUES for shape in SHAPES])
def given(request: pytest.FixtureRequest) -> tuple[str, Any]:
    """A datatype, and an array of it."""
    datatype, _, shape = request.param.partition(", ")
    return datatype, SHAPES[shape](VALUES[datatype])


def inputs(client: Any, datatype: str, array: Any, **options: Any) -> list[Any]:
    made = client.InferInput("x", list(array.shape), datatype)
    made.set_data_from_numpy(array, **options)
    return [made]


def test_every_datatype_by_tritonclient_over_http(echoes: Serving, given: tuple[str, Any]) -> None:
    datatype, array = given
    forms = [True] if datatype in BINARY_ONLY else [True, False]
    with tritonclient.http.InferenceServerClient(echoes.http) as client:
        for is_binary, asks_binary in itertools.product(forms, forms):
            outputs = [tritonclient.http.InferRequestedOutput("y", binary_data=asks_binary)]
            sent = inputs(tritonclient.http, datatype, array, binary_data=is_binary)
            result = client.infer(f"echo_{datatype.lower()}", sent, outputs=outputs)
            check_same(result.as_numpy("y"), array)


def test_every_datatype_by_tritonclient_over_grpc(echoes: Serving, given: tuple[str, Any]) -> None:
    datatype, array = given
    with tritonclient.grpc.InferenceServerClient(echoes.grpc) as client:
        result = client.infer(
            f"echo_{datatype.lower()}", inputs(tritonclient.grpc, datatype, array)
        )
    check_same(result.as_numpy("y"), array)


@pytest.mark.parametrize("library", [tritonclient.http.aio, tritonclient.grpc.aio])
def test_tritonclient_with_asyncio(echoes: Serving, library: Any) -> None:
    address = echoes.grpc if library is tritonclient.grpc.aio else echoes.http
    array = VALUES["FP32"]

    async def ask() -> None:
        async with library.InferenceServerClient(address) as client:
            assert await client.is_server_ready()
            assert await client.is_model_ready("echo_fp32", "1")
            results = await asyncio.gather(
                *(client.infer("echo_fp32", inputs(library, "FP32", array)) for _ in range(20))
            )
        for result in results:
            check_same(result.as_numpy("y"), array)

    asyncio.run(ask())


def test_kserves_own_clients(echoes: Serving) -> None:
    """In a process of their own: their messages are called as tritonclient's are."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.scale.kserve_clients", echoes.http, echoes.grpc],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
