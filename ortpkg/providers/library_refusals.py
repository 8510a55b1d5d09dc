"""Refusals of EPs' libraries and packages: how they are told, and what they depend on.

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
#: How the note on a damaged wheel ends, before the wheel's name.
HALF_INSTALLED = "; is it only half installed? pip install --force-reinstall "
_CACHE = "/etc/ld.so.cache"
_VARIABLES = {"win32": "PATH", "darwin": "DYLD_LIBRARY_PATH"}
#: A refusal for want of these says nothing of the next process.
_PASSING = (
    *("Cannot allocate memory", "MemoryError", "Too many open files", "not enough", "paging file"),
    *("it was ended by", "cannot be started", "bytes came"),
)
#: How loaders say that another library is not there, and that one is no such library.
_MISSING = ("No such file", "image not found", "could not be found", "error 126")
_OF_ANOTHER = ("undefined symbol", "CreateEpFactories", "API version", "error 127")
_DAMAGED = ("file too short", "invalid ELF header", "error 193")
#: What to do about a refusal, by what the system's loader said.
_ADVICE = {
    _MISSING: "install what is missing",
    _OF_ANOTHER: "its wheel is for another onnxruntime, or brings no execution provider",
    _DAMAGED: "the file is damaged, or for another system: install its wheel again",
}
_ASKED_AGAIN = "ortpkg devices asks it again"


def refusal_of(value: Any) -> str:
    """Return what an answer says of a refusal; "" where it is none."""
    return str(value.get(REFUSED, "")) if isinstance(value, dict) else ""


def refusal_sentence(name: str, reason: str) -> str:
    """Return what is said of a refused library; ``name`` is its EP's, with the wheel."""
    return f"{name} cannot be used here: {refusal_text(reason)}"


def refusal_text(reason: str) -> str:
    """Return a refusal's reason, with what to do about it."""
    from ortpkg.providers.library_words import shortened  # only where one is refused

    said = unquoted(shortened(reason))
    advice = next(
        (advice for signs, advice in _ADVICE.items() if any(sign in reason for sign in signs)), ""
    )
    return "; ".join(filter(None, (said, advice, _ASKED_AGAIN)))


def split_refusal(sentence: str) -> tuple[str, str]:
    """Return a sentence on a refusal, or a remembered failure, without and with its remedy.

    The remedy is "" where the sentence is on something else.
    """
    said, _, rest = sentence.rpartition(f"; {_ASKED_AGAIN}")
    if not said or rest:
        return sentence, ""
    for advice in _ADVICE.values():
        if said.endswith(f"; {advice}"):
            return said.removesuffix(f"; {advice}"), f"{advice}; {_ASKED_AGAIN}"
    return said, _ASKED_AGAIN


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


def _is_lasting(reason: str) -> bool:
    return not any(words in reason for words in _PASSING)


REFUSALS = Refusals(
    reason_of=refusal_of,
    is_lasting=_is_lasting,
    depends_on=loader_state,
)
