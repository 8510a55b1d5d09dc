"""Messages for libraries and packages of EPs that fail to load, and what a refusal depends on.

The system's loader refuses a library that needs a missing one, such as a driver's. The refusal is
remembered, so that not every process tries again, until something changes that the loader looks at:
installed distributions, its cache, the folders that it searches.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from ortpkg.foundations.errors import unquoted
from ortpkg.foundations.isolation.backend_probe import RefusalRules
from ortpkg.machine.json_form import hardware_device_to_json
from ortpkg.machine.machine_probe import probe
from ortpkg.runtime.providers.ep_discovery.candidate_distributions import file_identity
from ortpkg.runtime.providers.installed_metadata import recorded_distributions

#: Key of the reason in an answer that is a refusal.
REFUSED = "refused"
#: End of the note on a damaged wheel; the wheel's name follows.
HALF_INSTALLED = "; is it only half installed? pip install --force-reinstall "
_CACHE = "/etc/ld.so.cache"
_VARIABLES = {"win32": "PATH", "darwin": "DYLD_LIBRARY_PATH"}
#: Reasons that may pass: the next process may have the memory or the file handles.
_PASSING = (
    *("Cannot allocate memory", "MemoryError", "Too many open files", "not enough", "paging file"),
    *("it was ended by", "cannot be started", "bytes came"),
)
#: Words of loaders for a missing library, and for one that fits no EP of this onnxruntime.
_MISSING = ("No such file", "image not found", "could not be found", "error 126")
_OF_ANOTHER = ("undefined symbol", "CreateEpFactories", "API version", "error 127")
_DAMAGED = ("file too short", "invalid ELF header", "error 193")
#: Words in the loader's message → what to do.
_ADVICE = {
    _MISSING: "install what is missing",
    _OF_ANOTHER: "its wheel is for another onnxruntime, or brings no execution provider",
    _DAMAGED: "the file is damaged, or for another system: install its wheel again",
}
_ASKED_AGAIN = "ortpkg devices asks it again"


def refusal_of(value: Any) -> str:
    """Return the reason in a probe's answer that is a refusal; "" for another answer."""
    return str(value.get(REFUSED, "")) if isinstance(value, dict) else ""


def refusal_sentence(name: str, reason: str) -> str:
    """Return the message for a refused library.

    Args:
        name: its EP, with the wheel.
        reason: message of the loader or of onnxruntime.
    """
    return f"{name} cannot be used here: {refusal_text(reason)}"


def refusal_text(reason: str) -> str:
    """Return a refusal's reason, shortened, with what to do about it."""
    from ortpkg.runtime.providers.library_words import shortened  # only where one is refused

    words = unquoted(shortened(reason))
    advice = next(
        (advice for signs, advice in _ADVICE.items() if any(sign in reason for sign in signs)), ""
    )
    return "; ".join(filter(None, (words, advice, _ASKED_AGAIN)))


def split_refusal(sentence: str) -> tuple[str, str]:
    """Split a message on a refusal, or a remembered failure, into message and remedy.

    The remedy is "" for any other message.
    """
    message, _, rest = sentence.rpartition(f"; {_ASKED_AGAIN}")
    if not message or rest:
        return sentence, ""
    for advice in _ADVICE.values():
        if message.endswith(f"; {advice}"):
            return message.removesuffix(f"; {advice}"), f"{advice}; {_ASKED_AGAIN}"
    return message, _ASKED_AGAIN


def loader_state() -> dict[str, Any]:
    """Return JSON that changes with whatever may make the loader accept a library after all."""
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


REFUSALS = RefusalRules(
    reason_of=refusal_of,
    is_lasting=_is_lasting,
    depends_on=loader_state,
)
