"""Error for a missing library that one of ortpkg's extras installs."""

from __future__ import annotations

from typing import NamedTuple

from ortpkg.foundations.errors.base import UsageError
from ortpkg.foundations.errors.finding import quoted


class _Library(NamedTuple):
    """Optional library, and the extra of ortpkg that installs it.

    Attributes:
        module: Importable name.
        extra: Extra of ortpkg that has it.
        requirement: Requirement for pip.
    """

    module: str
    extra: str
    requirement: str


#: Libraries by their name in messages. A test compares the extras with pyproject.toml.
LIBRARIES = {
    "pillow": _Library("PIL", "images", "pillow"),
    "cryptography": _Library("cryptography", "sign", "cryptography"),
    "llvmlite": _Library("llvmlite", "llvm", "llvmlite"),
    "obstore": _Library("obstore", "cloud", "obstore"),
    "huggingface_hub": _Library("huggingface_hub", "hf", "huggingface_hub"),
    "uvicorn": _Library("uvicorn", "serve", "uvicorn"),
    "starlette": _Library("starlette", "serve", "starlette"),
    "httptools": _Library("httptools", "serve", "httptools"),
    "orjson": _Library("orjson", "serve", "orjson"),
    "grpcio": _Library("grpc", "serve", "grpcio"),
    "prometheus-client": _Library("prometheus_client", "serve", "prometheus-client"),
    "Ray": _Library("ray", "ray", "'ray[data,serve]'"),
    "pyarrow": _Library("pyarrow", "ray", "pyarrow"),
    "OpenVINO": _Library("openvino", "openvino", "openvino"),
    "onnxruntime": _Library("onnxruntime", "onnxruntime", "onnxruntime"),
}


class MissingExtraError(UsageError):
    """A library of one of ortpkg's extras is not installed, or cannot be loaded.

    The message is :func:`missing_library_text` of ``purpose``, ``library``, ``cause`` and
    ``otherwise``.

    Attributes:
        library: Its name, a key of :data:`LIBRARIES`.
        extra: Extra of ortpkg that installs it.
    """

    def __init__(
        self, purpose: str, library: str, cause: BaseException | None = None, *, otherwise: str = ""
    ) -> None:
        super().__init__(missing_library_text(purpose, library, cause, otherwise=otherwise))
        self.library, self.extra = library, LIBRARIES[library].extra


def missing_library_text(
    purpose: str, library: str, cause: BaseException | None = None, *, otherwise: str = ""
) -> str:
    """Return the sentence that says which library is missing, and what to install.

    Args:
        purpose: What needs it ("reading pictures").
        library: Key of :data:`LIBRARIES`.
        cause: Exception of its import; None if it was not imported.
        otherwise: What works without it ("--in-process needs none").
    """
    entry = LIBRARIES[library]
    is_absent = cause is None or (
        isinstance(cause, ModuleNotFoundError) and cause.name == entry.module
    )
    state = "is not installed" if is_absent else f"cannot be loaded ({quoted(str(cause))})"
    return (
        f"{purpose} needs {library}, which {state}: pip install {entry.requirement}, or install"
        f" ortpkg with its extra {entry.extra}{f'; {otherwise}' if otherwise else ''}"
    )
