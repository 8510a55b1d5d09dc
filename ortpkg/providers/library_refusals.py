"""Refusals of EPs' libraries: how they are told, and what they depend on.

A library that lacks another one (a driver's) is refused by the system's loader, and would be asked
in vain by every process. So the refusal is remembered until something changes that the loader looks
at: installed distributions, its cache, the folders that it searches.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from ortpkg.devices.json_form import hardware_device_to_json
from ortpkg.devices.machine_probe import probe
from ortpkg.errors import unquoted
from ortpkg.isolation.backend_probe import Refusals
from ortpkg.providers.ep_candidates import file_identity
from ortpkg.providers.installed_metadata import recorded_distributions

#: Key of an answer that is a refusal: what the loader, or the library, said.
REFUSED = "refused"
_CACHE = "/etc/ld.so.cache"
_VARIABLES = {"win32": "PATH", "darwin": "DYLD_LIBRARY_PATH"}
#: A refusal for want of these says nothing of the next process.
_PASSING = ("Cannot allocate memory", "Too many open files", "not enough", "paging file")
#: How loaders say that another library is not there, and that one is no such library.
_MISSING = ("No such file", "image not found", "could not be found", "error 126")
_OF_ANOTHER = ("undefined symbol", "CreateEpFactories", "API version", "error 127")


def refusal_of(value: Any) -> str:
    """Return what an answer says of a refusal; "" where it is none."""
    return str(value.get(REFUSED, "")) if isinstance(value, dict) else ""


def refusal_sentence(name: str, reason: str) -> str:
    """Return what is said of a refused library; ``name`` is its EP's, with the wheel."""
    from ortpkg.providers.library_words import shortened  # only where one is refused

    said = unquoted(shortened(reason))
    return f"{name} cannot be used here: {said}{_advice(reason)}; ortpkg devices asks it again"


def _advice(reason: str) -> str:
    """What to do about a refusal, by what the system's loader said."""
    if any(words in reason for words in _MISSING):
        return "; install what is missing"
    if any(words in reason for words in _OF_ANOTHER):
        return "; its wheel is for another onnxruntime, or brings no execution provider"
    return ""


def loader_state() -> dict[str, Any]:
    """Return what decides, beside the library itself, whether it is taken."""
    searched = os.environ.get(_VARIABLES.get(sys.platform, "LD_LIBRARY_PATH"), "")
    return {
        "hardware": [hardware_device_to_json(device) for device in probe().hardware],
        "installed": [
            f"{record.folder}/{record.entry} {record.changed_ns}"
            for record in recorded_distributions()
        ],
        "cache": file_identity(_CACHE),
        "searched": [[folder, *file_identity(folder)] for folder in searched.split(os.pathsep)],
    }


def _is_lasting(value: Any) -> bool:
    said = refusal_of(value)
    return not any(words in said for words in _PASSING)


REFUSALS = Refusals(
    is_refusal=lambda value: bool(refusal_of(value)),
    is_lasting=_is_lasting,
    depends_on=loader_state,
)
