"""KServe's own two clients carry every datatype: told a server's addresses of HTTP and gRPC."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest
from kserve.inference_client import RESTConfig

from tests.scale.protocol_rows import BINARY_ONLY
from tests.scale.protocol_values import SHAPES, VALUES, check_same


def request(datatype: str, array: Any, *, is_binary: bool) -> InferRequest:
    """What asks the model that gives back what it gets."""
    tensor = InferInput("x", list(array.shape), datatype)
    tensor.set_data_from_numpy(array, binary_data=is_binary)
    return InferRequest(
        f"echo_{datatype.lower()}",
        [tensor],
        request_id="7",
        parameters={"binary_data_output": is_binary},
    )


async def check(http: str, grpc: str, datatype: str, array: Any) -> None:
    """Asks over both."""
    name = f"echo_{datatype.lower()}"
    forms = [True] if datatype in BINARY_ONLY else [True, False]
    async with InferenceRESTClient(RESTConfig(protocol="v2")) as rest:
        assert await rest.is_server_ready(f"http://{http}")
        assert await rest.is_model_ready(f"http://{http}", name)
        for is_binary in forms:
            asked = request(datatype, array, is_binary=is_binary)
            response = await rest.infer(f"http://{http}", asked, name)
            assert response.id == "7"
            check_same(response.outputs[0].as_numpy(), array)
    async with InferenceGRPCClient(grpc) as client:
        assert await client.is_server_ready()
        assert await client.is_model_ready(name)
        for is_binary in forms:
            response = await client.infer(request(datatype, array, is_binary=is_binary))
            assert response.id == "7"
            check_same(response.outputs[0].as_numpy(), array)


def main() -> None:
    """All of them."""
    http, grpc = sys.argv[1:]
    for datatype in VALUES.keys() - {"BF16"}:  # KServe has no such datatype
        for shape, make in SHAPES.items():
            try:
                asyncio.run(check(http, grpc, datatype, make(VALUES[datatype])))
            except Exception as error:
                raise AssertionError(f"{datatype}, {shape}: {error}") from error


if __name__ == "__main__":
    main()
