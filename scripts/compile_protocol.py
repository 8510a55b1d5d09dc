"""Compile the definition of the protocol's gRPC service: ``python -m scripts.compile_protocol``.

It needs grpcio-tools, which ``make scale`` installs; a test there checks that the committed file is
what protoc makes of the definition.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

DEFINITION = (
    Path(__file__).resolve().parent.parent
    / "ortpkg"
    / "scale"
    / "serving"
    / "open_inference_grpc.proto"
)
COMPILED = DEFINITION.with_suffix(".binpb")


def compile_definition(target: Path) -> None:
    """Write the definition to ``target`` as protoc's set of file descriptors.

    Raises:
        RuntimeError: protoc refuses the definition.
    """
    status = protoc.main(
        [
            "protoc",
            f"--proto_path={DEFINITION.parent}",
            f"--proto_path={files('grpc_tools') / '_proto'}",
            f"--descriptor_set_out={target}",
            DEFINITION.name,
        ]
    )
    if status:
        raise RuntimeError(f"protoc refuses {DEFINITION}")


if __name__ == "__main__":
    compile_definition(COMPILED)
