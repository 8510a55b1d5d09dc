"""Digests as text in OCI notation: ``sha256:<64 lower-case hex digits>``.

Source: OCI image specification 1.1, descriptor.md.
"""

from __future__ import annotations

import re

_DIGEST = re.compile("sha256:[0-9a-f]{64}")


def is_digest(text: object) -> bool:
    """Return True for a SHA-256 digest in OCI notation; other algorithms are not supported."""
    return isinstance(text, str) and _DIGEST.fullmatch(text) is not None
