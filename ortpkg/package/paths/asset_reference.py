"""Parse references to shared assets: ``sha256:<64 hex digits>``, perhaps with a path in the asset.

An asset is a folder, by default ``shared_assets/sha256-<hex>/`` in the package. A text of any other
form is a path, as in onnxruntime 1.28 to 1.32, even if it begins with ``sha256:``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

ASSETS_DIRECTORY = "shared_assets"
_SCHEME = "sha256:"
_FOLDER_PREFIX = "sha256-"
_REFERENCE = re.compile(r"(sha256:[0-9a-f]{64})(?:/(.*))?", re.DOTALL)
_DIGEST = re.compile(r"[0-9a-f]{64}")


class AssetReference(NamedTuple):
    """Reference to a shared asset.

    Attributes:
        uri: ``sha256:<hex>``.
        tail: path inside the asset; "" is the asset itself.
    """

    uri: str
    tail: str


def parse_asset_reference(text: str) -> AssetReference | None:
    """Parse ``text`` as a reference; None if it is a path."""
    match = _REFERENCE.fullmatch(text) if text.startswith(_SCHEME) else None
    return None if match is None else AssetReference(match.group(1), match.group(2) or "")


def looks_like_asset_reference(text: str) -> bool:
    """Return True if ``text`` begins like a reference, in any case; it may still be none."""
    return text[: len(_SCHEME)].lower() == _SCHEME


def is_asset_uri(text: str) -> bool:
    """Return True if ``text`` is ``sha256:<hex>`` and nothing else."""
    return text.startswith(_SCHEME) and _DIGEST.fullmatch(text, len(_SCHEME)) is not None


def asset_folder_name(uri: str) -> str:
    """Return the name of the asset's folder in ``shared_assets/``."""
    return _FOLDER_PREFIX + uri.removeprefix(_SCHEME)


def asset_uri_of_folder(name: str) -> str | None:
    """Return the URI of an asset by its folder's name in ``shared_assets/``; None for others."""
    if not name.startswith(_FOLDER_PREFIX) or _DIGEST.fullmatch(name, len(_FOLDER_PREFIX)) is None:
        return None
    return _SCHEME + name[len(_FOLDER_PREFIX) :]
