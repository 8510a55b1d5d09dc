"""Check paths and names of a package by their text alone, the same on every system.

A package is written on one machine and opened on another, so its names must be those that every
supported operating system can hold.
"""

from __future__ import annotations

import re

_MOST_NAME_NBYTES = 255  # of one name, on every common file system
_MOST_REFERENCE_CHARACTERS = 4096  # Linux's PATH_MAX
_DRIVE = re.compile(r"[A-Za-z]:")
# C0, DEL, C1 (terminals obey some of these), and characters that reorder text, so that a name
# looks like another one.
_CONTROL_CHARACTERS = "\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069"
_CONTROL = re.compile(f"[{_CONTROL_CHARACTERS}]")
_NOT_IN_NAMES = re.compile(rf'[{_CONTROL_CHARACTERS}<>:"|?*/\\]')
# "Naming Files, Paths, and Namespaces" of the Windows documentation; the extension does not matter
# there.
_RESERVED_ON_WINDOWS = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])\s*(?:\.|$)", re.IGNORECASE
)


def why_not_a_path(reference: str) -> str | None:
    """Return why ``reference`` cannot be a path at all, wherever it may lead; None if it can."""
    if len(reference) > _MOST_REFERENCE_CHARACTERS:
        return f"is longer than {_MOST_REFERENCE_CHARACTERS} characters"
    return "holds control characters" if _CONTROL.search(reference) else None


def why_not_portable(reference: str) -> str | None:
    """Return why ``reference`` may not be a path in a package, by its text; None if it may."""
    if not reference:
        return "is empty"
    if reason := why_not_a_path(reference):
        return reason
    if reference.startswith(("/", "\\")):
        return "is absolute"
    if _DRIVE.match(reference):
        return "names a drive"
    if "\\" in reference:
        return "holds a backslash, which separates names on Windows only"
    for name in reference.split("/"):
        if name not in ("", ".") and (reason := why_not_a_name(name)):
            return reason
    return None


def why_not_a_name(name: str) -> str | None:
    """Return why ``name`` may not name a file or folder of a package; None if it may."""
    if not name:
        return "is empty"
    if match := _NOT_IN_NAMES.search(name):
        return _why_not_in_names(match.group(), name)
    if name in (".", ".."):
        return "leads out of its folder" if name == ".." else "is a folder's name for itself"
    if name[-1] in ". ":
        return "ends with a dot or a space, which Windows drops"
    if _RESERVED_ON_WINDOWS.match(name):
        return "is a device's name on Windows"
    try:
        nbytes = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        return "is not well-formed Unicode"
    return (
        f"has a name of more than {_MOST_NAME_NBYTES} bytes" if nbytes > _MOST_NAME_NBYTES else None
    )


def _why_not_in_names(character: str, name: str) -> str:
    """Return the reason for a name that holds ``character``, its first forbidden one."""
    if _CONTROL.search(name):
        return "holds control characters"
    if "/" in name or "\\" in name:
        return "holds a path separator"
    return f"holds {character!r}, which Windows does not allow in names"
