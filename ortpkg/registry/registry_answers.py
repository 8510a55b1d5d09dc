"""What a registry's answers mean, by status and by what they say of errors.

Source: OCI distribution specification 1.1, "Error Codes".
"""

from __future__ import annotations

from typing import Any

from ortpkg.documents.document_limits import DocumentLimits
from ortpkg.documents.json_documents import parse_document
from ortpkg.errors import (
    ArtifactFormatError,
    ArtifactNotFoundError,
    PackageFormatError,
    RegistryAuthenticationError,
    RegistryError,
    quoted,
    redacted_quotation,
    unquoted,
)
from ortpkg.registry.http_retries import retry_after_s
from ortpkg.registry.http_transport import Answer

#: A registry's list of errors, and everything else that is small.
MOST_ANSWER_NBYTES = 4 << 20
_MOST_ERROR_NBYTES = 64 * 1024
_LIMITS = DocumentLimits(nbytes=MOST_ANSWER_NBYTES, depth=32)
_DIGEST_INVALID = "DIGEST_INVALID"


def refusal(answer: Answer, what: str, body: bytes | None = None) -> RegistryError:
    """The error for an answer that is not what was hoped for.

    Args:
        answer: its body is read, unless ``body`` is it.
        what: the repository, with the tag, digest or action concerned.
    """
    code, said = _first_error(_error_body(answer) if body is None else body)
    status, registry = answer.status, answer.host
    told = f": {said}" if said else ""
    if status == 401:
        return RegistryAuthenticationError(
            f"{what}: {registry} wants other credentials, or there is no such repository{told}; log"
            f" in with: ortpkg login {registry}",
            registry=registry,
            status=status,
        )
    if status == 403:
        return RegistryAuthenticationError(
            f"{what}: {registry} does not allow this{told}", registry=registry, status=status
        )
    if status == 404:
        return ArtifactNotFoundError(
            f"{what}: {registry} has no such thing{told}", registry=registry, status=status
        )
    if status == 429:
        asked_s = retry_after_s(answer.header("Retry-After"))
        later = "" if asked_s is None else f", and to wait {asked_s:.0f} s"
        return RegistryError(
            f"{what}: {registry} asks for fewer requests{later}{told}",
            registry=registry,
            status=status,
        )
    kind = ArtifactFormatError if code == _DIGEST_INVALID else RegistryError
    return kind(
        f"{what}: {registry} answers with status {status}{told}", registry=registry, status=status
    )


def is_wrong_digest(error: RegistryError) -> bool:
    """Whether a registry refused content because it has another digest."""
    return isinstance(error, ArtifactFormatError)


def parse_json_object(body: bytes, what: str, registry: str) -> dict[str, Any]:
    """The JSON object that an answer is. ArtifactFormatError for anything else."""
    try:
        return parse_document(body, document="the answer", limits=_LIMITS)
    except PackageFormatError as error:
        raise ArtifactFormatError(
            f"{what}: {registry} answers with something that is no JSON object: {error}",
            registry=registry,
        ) from None  # it quotes the answer


def _error_body(answer: Answer) -> bytes:
    try:
        with answer:
            return answer.read(_MOST_ERROR_NBYTES)
    except RegistryError:
        return b""


def _first_error(body: bytes) -> tuple[str, str]:
    """(code, both code and message for people) of the first error that a body lists."""
    try:
        first = parse_document(body, document="the answer", limits=_LIMITS)["errors"][0]
        code, message = first.get("code"), first.get("message")
    except (PackageFormatError, KeyError, IndexError, TypeError, AttributeError):
        return "", ""
    texts = []
    if isinstance(code, str) and code:
        texts.append(unquoted(redacted_quotation(code)))
    if isinstance(message, str) and message:
        texts.append(quoted(redacted_quotation(message)))
    return (code if isinstance(code, str) else ""), ", ".join(texts)
