"""The definition of the gRPC service beside that of Triton's client, and beside its compiled form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tritonclient.grpc import service_pb2 as theirs

from ortpkg.scale.serving import grpc_messages
from scripts.compile_protocol import COMPILED, compile_definition

pytestmark = [pytest.mark.scale, pytest.mark.shows("clients of others")]


def fields(message: Any) -> dict[str, tuple[Any, ...]]:
    """Return number, type and label of a message's fields, and those of the messages in it."""
    return {
        field.name: (
            field.number,
            field.type,
            field.is_repeated if hasattr(field, "is_repeated") else field.label,
            fields(field.message_type) if field.message_type else {},
        )
        for field in message.fields
    }


@pytest.mark.parametrize(
    "method", list(grpc_messages.SERVICE.methods), ids=lambda method: method.name
)
def test_every_message_has_the_fields_that_clients_send_and_read(method: Any) -> None:
    service = theirs.DESCRIPTOR.package
    assert grpc_messages.SERVICE.full_name == f"{service}.GRPCInferenceService"
    for message in (method.input_type, method.output_type):
        assert fields(message) == fields(theirs.DESCRIPTOR.message_types_by_name[message.name])


def test_the_compiled_definition_is_current(tmp_path: Path) -> None:
    compile_definition(tmp_path / "compiled")
    assert (tmp_path / "compiled").read_bytes() == COMPILED.read_bytes()
