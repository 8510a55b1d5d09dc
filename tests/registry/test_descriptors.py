"""Descriptors that strangers write: taken as the specification has them, or refused in a sentence."""

from __future__ import annotations

from typing import Any

import pytest

from ortpkg.distribution.registry.descriptors import parse_descriptor

DIGEST = "sha256:" + "0a" * 32
GOOD: dict[str, Any] = {"mediaType": "application/json", "digest": DIGEST, "size": 3}


def test_a_descriptor_is_written_as_it_was_read() -> None:
    document = {**GOOD, "annotations": {"a": "b"}, "artifactType": "application/x"}

    descriptor = parse_descriptor(document)

    assert descriptor.to_json() == document
    assert descriptor.sha256 == "0a" * 32


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"mediaType": None}, "mediaType"),
        ({"mediaType": "no type"}, "mediaType"),
        ({"digest": "sha256:" + "0A" * 32}, "digest"),
        ({"digest": "sha512:" + "0a" * 64}, "digest"),
        ({"digest": DIGEST + "\n"}, "digest"),
        ({"size": -1}, "size"),
        ({"size": True}, "size"),
        ({"size": 1 << 60}, "size"),
        ({"size": "3"}, "size"),
        ({"artifactType": 3}, "artifactType"),
        ({"annotations": []}, "annotations"),
        ({"annotations": {"a": 1}}, "annotation"),
        ({"annotations": {str(number): "" for number in range(300)}}, "annotations"),
        ({"annotations": {"a": "b" * 70_000}}, "annotation"),
    ],
)
def test_what_is_no_descriptor_is_refused(change: dict[str, Any], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        parse_descriptor({**GOOD, **change})


def test_a_text_is_no_descriptor() -> None:
    with pytest.raises(ValueError, match="object"):
        parse_descriptor("sha256")
