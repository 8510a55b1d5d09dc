"""Containers as onnxruntime-ep-openvino 1.8.1 writes them, by a writer of the tests' own."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

#: What stands at the beginning of a blob of OpenVINO's CPU plug-in.
REQUIREMENTS = "meta=1.0;ov=2026.4.1;isa=Intel AVX2"
BLOB_OFFSET = 1 << 16


def bson(document: Mapping[str, Any]) -> bytes:
    """Keys sorted, numbers as short as they fit: as nlohmann::json writes them."""
    body = b""
    for key, value in sorted(document.items()):
        name = key.encode() + b"\0"
        if isinstance(value, Mapping):
            body += b"\x03" + name + bson(value)
        elif isinstance(value, str):
            body += (
                b"\x02" + name + struct.pack("<i", len(value.encode()) + 1) + value.encode() + b"\0"
            )
        elif isinstance(value, list):
            body += b"\x04" + name + bson({str(place): each for place, each in enumerate(value)})
        elif isinstance(value, bool):
            body += b"\x08" + name + struct.pack("<?", value)
        elif -(1 << 31) <= value < 1 << 31:
            body += b"\x10" + name + struct.pack("<i", value)
        elif value < 1 << 63:
            body += b"\x12" + name + struct.pack("<q", value)
        else:
            body += b"\x11" + name + struct.pack("<Q", value)
    return struct.pack("<i", len(body) + 5) + body + b"\0"


def container(blobs: Mapping[str, bytes], **changes: Any) -> bytes:
    """A container; ``changes`` are keys of its index or header (``magic``, ...)."""
    header = {
        "magic": b"OVEP_BIN",
        "version_of_file": 1,
        "header_nbytes": 40,
        "start": 40,
        "length": None,
    }
    header |= {key: changes.pop(key) for key in list(changes) if key in header}
    places, offset = {}, BLOB_OFFSET
    for name, blob in blobs.items():
        places[name] = {"data_offset": offset, "size": len(blob)}
        offset += -(-len(blob) // BLOB_OFFSET) * BLOB_OFFSET
    index = {
        "blob_metadata_map": places,
        "producer": "onnxruntime-openvino-ep-plugin-1.8.1",
        "version": "1.1.0",
        **changes,
    }
    encoded = bson({key: value for key, value in index.items() if value is not None})
    data = struct.pack(
        "<8s4Q",
        header["magic"],
        header["version_of_file"],
        header["header_nbytes"],
        header["start"],
        len(encoded) if header["length"] is None else header["length"],
    )
    # The provider writes its index twice, the second time shorter: the rest of the first one stays
    # behind it.
    data = (data + encoded + b"1.1.0\0\0").ljust(BLOB_OFFSET, b"\0")
    for blob in blobs.values():
        data += blob.ljust(-(-len(blob) // BLOB_OFFSET) * BLOB_OFFSET, b"\0")
    return data


def cpu_blob(body: bytes, requirements: str = REQUIREMENTS) -> bytes:
    """What looks like a blob of OpenVINO's CPU plug-in as far as ortpkg looks into one."""
    text = requirements.encode()
    return b"RR_UPCVO" + struct.pack("<IQ", 1, len(text)) + text + body
