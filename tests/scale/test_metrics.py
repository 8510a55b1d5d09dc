"""What a server tells Prometheus after requests whose number is known."""

from __future__ import annotations

import asyncio
import urllib.request

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
import tritonclient.http.aio
from prometheus_client.parser import text_string_to_metric_families

from tests.scale.serving_processes import serving

pytestmark = [
    pytest.mark.scale,
    pytest.mark.shows("serving"),
    pytest.mark.timeout(600),
]

IMAGE = np.zeros((1, 1, 8, 8), np.float32)


def samples(address: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Name and labels → value."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as response:
        text = response.read().decode()
    return {
        (each.name, frozenset(each.labels.items())): each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
    }


async def ask_at_once(address: str, count: int) -> None:
    given = tritonclient.http.InferInput("image", list(IMAGE.shape), "FP32")
    given.set_data_from_numpy(IMAGE)
    async with tritonclient.http.aio.InferenceServerClient(address, conn_limit=count) as client:
        await asyncio.gather(*(client.infer("digits", [given]) for _ in range(count)))


def test_requests_runs_and_refusals_are_counted() -> None:
    with serving("sample_packages/digits.ortpackage", "--batch-latency", "1s") as server:
        asyncio.run(ask_at_once(server.http, 16))
        with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
            assert client.is_server_live()
            with pytest.raises(tritonclient.grpc.InferenceServerException):
                client.get_model_metadata("nothing")
        with tritonclient.http.InferenceServerClient(server.http) as client:
            assert not client.is_model_ready("nothing")
        found = samples(server.http)
    model = {("model", "digits"), ("version", "1.0.0")}
    assert found["ortpkg_request_seconds_count", frozenset(model)] == 16
    assert found["ortpkg_wait_seconds_count", frozenset(model)] == 16
    assert found["ortpkg_batch_rows_sum", frozenset(model)] == 16
    runs = found["ortpkg_batch_requests_count", frozenset(model)]
    assert runs < 16
    ran = {
        (dict(labels)["component"], dict(labels)["variant"]): value
        for (name, labels), value in found.items()
        if name == "ortpkg_run_seconds_count"
    }
    assert ran == {("classifier", "cpu-fp32"): runs}
    for protocol, status, count in (
        ("http", "200", 16),
        ("http", "404", 1),
        ("grpc", "OK", 1),
        ("grpc", "NOT_FOUND", 1),
    ):
        labels = frozenset({("protocol", protocol), ("status", status)})
        assert found["ortpkg_responses_total", labels] == count
    assert found["ortpkg_open_requests", frozenset()] == 0
