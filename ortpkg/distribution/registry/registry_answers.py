"""Errors for a registry's answers, by their status and the error list in their body.

Source: OCI distribution specification 1.1, "Error Codes".
"""

from __future__ import annotations

from typing import Any

from ortpkg.distribution.registry.http_retries import retry_after_s
from ortpkg.distribution.registry.http_transport import Answer
from ortpkg.foundations.documents.document_limits import DocumentLimits
from ortpkg.foundations.documents.json_documents import parse_document
from ortpkg.foundations.errors import (
    ArtifactFormatError,
    ArtifactNotFoundError,
    PackageFormatError,
    RegistryAuthenticationError,
    RegistryError,
    quoted,
    redacted_quotation,
    unquoted,
)

#: Largest answer that is neither a manifest nor a blob.
MOST_ANSWER_NBYTES = 4 << 20
_MOST_ERROR_NBYTES = 64 * 1024
_LIMITS = DocumentLimits(nbytes=MOST_ANSWER_NBYTES, depth=32)
_DIGEST_INVALID = "DIGEST_INVALID"


def refusal(answer: Answer, what: str, body: bytes | None = None) -> RegistryError:
    """Return the error for an unexpected answer.

    Args:
        answer: The answer; its body is read unless ``body`` is given.
        what: The repository, with the tag, digest or action concerned.
        body: Body of the answer, if it was read already.
    """
    code, message = _first_error(_error_body(answer) if body is None else body)
    status, registry = answer.status, answer.host
    detail = f": {message}" if message else ""
    if status == 401:
        return RegistryAuthenticationError(
            f"{what}: {registry} wants other credentials, or there is no such repository{detail};"
            f" log in with: ortpkg login {registry}",
            registry=registry,
            status=status,
        )
    if status == 403:
        return RegistryAuthenticationError(
            f"{what}: {registry} does not allow this{detail}", registry=registry, status=status
        )
    if status == 404:
        return ArtifactNotFoundError(
            f"{what}: {registry} has no such thing{detail}", registry=registry, status=status
        )
    if status == 429:
        asked_s = retry_after_s(answer.header("Retry-After"))
        later = "" if asked_s is None else f", and to wait {asked_s:.0f} s"
        return RegistryError(
            f"{what}: {registry} asks for fewer requests{later}{detail}",
            registry=registry,
            status=status,
        )
    kind = ArtifactFormatError if code == _DIGEST_INVALID else RegistryError
    return kind(
        f"{what}: {registry} answers with status {status}{detail}", registry=registry, status=status
    )


def is_wrong_digest(error: RegistryError) -> bool:
    """Return True if the registry refused content because its digest is wrong."""
    return isinstance(error, ArtifactFormatError)


def parse_json_object(body: bytes, what: str, registry: str) -> dict[str, Any]:
    """Parse the JSON object of an answer.

    Raises:
        ArtifactFormatError: The body is not a JSON object.
    """
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
    """Return the code of the first error in a body, and its code and message as text for people."""
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
