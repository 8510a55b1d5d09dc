"""What clients are told of errors: their own faults, the server's state, and nothing of ours."""

from __future__ import annotations

import pytest

from ortpkg.foundations import errors
from ortpkg.scale.serving.refusals import refusal_of


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (errors.InvalidRequestError("no"), 400, "INVALID_ARGUMENT"),
        (errors.InvalidFeedError("no", name="x"), 400, "INVALID_ARGUMENT"),
        (errors.RunError("Gather: index 9 is out of range"), 400, "INVALID_ARGUMENT"),
        (errors.UnauthorizedError("no"), 401, "UNAUTHENTICATED"),
        (errors.UnknownModelError("no", name="m"), 404, "NOT_FOUND"),
        (errors.LimitExceededError("no", limit="body"), 408, "DEADLINE_EXCEEDED"),
        (errors.RequestTooLargeError("no", limit_nbytes=1), 413, "RESOURCE_EXHAUSTED"),
        (errors.LimitExceededError("no", limit="memory"), 413, "RESOURCE_EXHAUSTED"),
        (errors.ServerBusyError("no", retry_after_s=1.5), 429, "RESOURCE_EXHAUSTED"),
        (errors.NotOfferedError("no"), 501, "UNIMPLEMENTED"),
        (errors.NotServingError("no", retry_after_s=1.5), 503, "UNAVAILABLE"),
        (errors.LimitExceededError("no", limit="time"), 504, "DEADLINE_EXCEEDED"),
    ],
)
def test_an_error_has_its_status_in_both_protocols(
    error: Exception, status: int, code: str
) -> None:
    refusal = refusal_of(error)
    assert (refusal.status, refusal.grpc_code, refusal.reason) == (status, code, str(error))
    assert not refusal.is_our_fault
    assert ("retry-after" in refusal.headers) is (status in (429, 503))
    assert refusal.headers.get("retry-after", "2") == "2"


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a secret"),
        NotImplementedError("a secret"),
        errors.ExecutionProviderError("a secret", ep_name="x"),
    ],
)
def test_a_fault_of_ours_says_nothing_but_that(error: Exception) -> None:
    refusal = refusal_of(error)
    assert (refusal.status, refusal.grpc_code) == (500, "INTERNAL")
    assert "secret" not in refusal.reason
    assert refusal.is_our_fault


def test_a_request_that_needs_more_memory_than_there_is_is_too_large() -> None:
    refusal = refusal_of(MemoryError())
    assert (refusal.status, refusal.grpc_code) == (413, "RESOURCE_EXHAUSTED")
    assert "memory" in refusal.reason
