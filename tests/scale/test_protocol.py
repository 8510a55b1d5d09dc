"""Every row of the table of the Open Inference Protocol, asked by no client's library."""

from __future__ import annotations

import http.client
import json
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
from tritonclient.grpc import service_pb2 as messages

from tests.scale.protocol_rows import (
    GRPC_ENDPOINTS,
    GRPC_REQUESTS,
    HTTP_ENDPOINTS,
    HTTP_REQUESTS,
    Row,
)
from tests.scale.serving_processes import Serving

pytestmark = [
    pytest.mark.scale,
    pytest.mark.shows("clients of others"),
    pytest.mark.timeout(600),
]


def titled(row: Row) -> str:
    return f"{row.call}: {row.what}"


@pytest.mark.parametrize("row", [*HTTP_ENDPOINTS, *HTTP_REQUESTS], ids=titled)
def test_every_row_of_the_protocols_table_over_http(echoes: Serving, row: Row) -> None:
    method, _, path = row.call.partition(" ")
    body = row.body if isinstance(row.body, bytes | None) else json.dumps(row.body).encode()
    client = http.client.HTTPConnection(echoes.http, timeout=30)
    client.request(method, path, body, dict(row.headers or {}))
    response = client.getresponse()
    answer = json.loads(response.read())
    client.close()
    assert response.status == row.answer
    if response.status >= 400:
        assert set(answer) == {"error"}
        assert answer["error"]
    assert {**answer, **(row.says or {})} == answer


@pytest.mark.parametrize("row", [*GRPC_ENDPOINTS, *GRPC_REQUESTS], ids=titled)
def test_every_row_of_the_protocols_table_over_grpc(echoes: Serving, row: Row) -> None:
    kind: Any = getattr(messages, f"{row.call}Request", None)
    sent = row.body if isinstance(row.body, bytes) else kind(**(row.body or {})).SerializeToString()
    with grpc.insecure_channel(echoes.grpc) as channel:
        call = channel.unary_unary(f"/inference.GRPCInferenceService/{row.call}")
        if row.answer != "OK":
            with pytest.raises(grpc.RpcError) as refused:
                call(sent, timeout=30)
            assert refused.value.code().name == row.answer
            assert refused.value.details()
            return
        raw = call(sent, timeout=30)
    answer = getattr(messages, f"{row.call}Response").FromString(raw)
    wanted = type(answer)(**(row.says or {}))
    assert {**MessageToDict(answer), **MessageToDict(wanted)} == MessageToDict(answer)
