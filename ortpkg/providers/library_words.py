"""Messages of native libraries, as they are passed on: on one line, and not too long."""

from __future__ import annotations

import re

from ortpkg.errors import MOST_QUOTED_CHARACTERS, quoted

_SOURCE_PLACES = ("Exception from ", "Check '")
#: How onnxruntime begins what it says: its status; file, line and function of its own source, and
#: the condition there that did not hold, if a message follows.
_STATUS = re.compile(r"\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : ")
_SOURCE_FUNCTION = re.compile(
    r"/\S+\.(?:cc|cpp|h|hpp):\d+ [^()]*\((?:[^()]|\([^()]*\))*\)"
    r"(?: const)?(?: \[with [^]]*\])?(?:::<lambda\([^()]*\)>)? "
    r"(?:(?:(?!: | was false\. ).)+ was false\. (?=\S))?"
)
#: The same within a line of OpenVINO's.
_SOURCE_WITHIN = re.compile(r"(?:Error: )?Exception from \S+\.(?:cc|cpp|hpp|h):\d+:\s*")
#: A file that is named, and named again by the system's loader.
_NAMED_TWICE = re.compile(r'"([^"]+)": \1: ')
#: Folders before a file's name, of which long messages go without; within quotes they may have
#: spaces.
_FOLDERS = re.compile(
    r"(?<=[\"'])(?:[A-Za-z]:)?[/\\](?:[^/\\\"'\n]+[/\\])+"
    r"|(?<![\w.\"'])(?:[A-Za-z]:)?[/\\](?:[^/\\\"'\s:]+[/\\])+"
)
#: Of a message that is still too long, as much of its beginning stays.
_BEGINNING = 70


def words_of(error: Exception) -> str:
    """A library's message in one line, without its status and places in its own source."""
    said = _STATUS.sub("", str(error))
    lines = [_SOURCE_FUNCTION.sub("", line.strip()) for line in said.splitlines()]
    telling = [line for line in lines if line and not line.startswith(_SOURCE_PLACES)]
    words = " ".join(telling or [line for line in lines if line])
    words = _SOURCE_WITHIN.sub("", words).strip() or words
    return _NAMED_TWICE.sub(r'"\1": ', words) or type(error).__name__


def quoted_words(error: Exception) -> str:
    """Return :func:`words_of`, quoted; a long message keeps its end and its files' names."""
    return quoted(shortened(words_of(error)))


def shortened(words: str, most: int = MOST_QUOTED_CHARACTERS) -> str:
    """Return ``words`` in at most ``most`` characters.

    Folders of files go first, then the middle: what is missing, and why, is said at the end.
    """
    if len(words) > most:
        words = _FOLDERS.sub("…/", words)
    if len(words) <= most:
        return words
    start = min(_BEGINNING, most // 3)
    return f"{words[:start]}…{words[len(words) - (most - start - 1) :]}"
