"""Bearer token that a server may require from clients (RFC 6750)."""

from __future__ import annotations

import hmac
import re
from pathlib import Path

from ortpkg.foundations.errors import UnauthorizedError, UsageError, quoted

_MOST_CHARACTERS = 4096
#: b64token of RFC 6750, section 2.1.
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")


def read_token(file: Path) -> str:
    """Return the token in ``file``, which may end with a newline.

    Raises:
        UsageError: The file cannot be read, or its text is not a token.
    """
    try:
        with file.open(encoding="ascii") as stream:
            text = stream.read(_MOST_CHARACTERS + 1).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the token in {quoted(file)} cannot be read: {error}") from error
    if len(text) > _MOST_CHARACTERS or _TOKEN.fullmatch(text) is None:
        raise UsageError(
            f"{quoted(file)} must hold a token alone: letters, digits and -._~+/, then perhaps ="
        )
    return text


def check_bearer_token(authorization: str | None, token: str) -> None:
    """Raise UnauthorizedError unless ``authorization`` is the header that carries ``token``."""
    scheme, _, shown_token = (authorization or "").partition(" ")
    # Compares in constant time, which tells nothing of how much is right.
    is_right = hmac.compare_digest(shown_token.strip().encode(), token.encode())
    if scheme.lower() != "bearer" or not is_right:
        raise UnauthorizedError("this server asks for a bearer token, and the request has not it")
