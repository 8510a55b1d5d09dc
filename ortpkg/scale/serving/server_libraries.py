"""Load the libraries of a server, which the extra ``serve`` installs."""

from __future__ import annotations

import os
from importlib import import_module

from ortpkg.foundations.errors import MissingExtraError

#: Importable name of each library.
_MODULES = {
    "uvicorn": "uvicorn",
    "starlette": "starlette",
    "httptools": "httptools",
    "orjson": "orjson",
    "grpcio": "grpc",
    "prometheus-client": "prometheus_client",
}


def load_server_libraries() -> None:
    """Import what a server needs.

    Raises:
        MissingExtraError: A library is not installed or cannot be loaded.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # failures are raised, and reported by ortpkg
    for library, module in _MODULES.items():
        try:
            import_module(module)
        except ImportError as error:
            raise MissingExtraError("serving", library, error) from error
