"""Shortens messages of native libraries to one line without places in their source."""

from __future__ import annotations

import re

from ortpkg.foundations.errors import MOST_QUOTED_CHARACTERS, quoted

_SOURCE_PLACES = ("Exception from ", "Check '")
#: Beginning of onnxruntime's messages: its status; file, line and function of its own source, and
#: the condition there that did not hold, if a message follows.
_STATUS = re.compile(r"\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : ")
_SOURCE_FUNCTION = re.compile(
    r"/\S+\.(?:cc|cpp|h|hpp):\d+ [^()]*\((?:[^()]|\([^()]*\))*\)"
    r"(?: const)?(?: \[with [^]]*\])?(?:::<lambda\([^()]*\)>)? "
    r"(?:(?:(?!: | was false\. ).)+ was false\. (?=\S))?"
)
#: Place in OpenVINO's source, in the middle of a line.
_SOURCE_WITHIN = re.compile(r"(?:Error: )?Exception from \S+\.(?:cc|cpp|hpp|h):\d+:\s*")
#: File name that the system's loader repeats after onnxruntime.
_NAMED_TWICE = re.compile(r'"([^"]+)": \1: ')
#: Folders before a file's name, which long messages leave out; in quotes they may have spaces.
_FOLDERS = re.compile(
    r"(?<=[\"'])(?:[A-Za-z]:)?[/\\](?:[^/\\\"'\n]+[/\\])+"
    r"|(?<![\w.\"'])(?:[A-Za-z]:)?[/\\](?:[^/\\\"'\s:]+[/\\])+"
)
#: Characters that stay of the beginning of a message that is still too long.
_BEGINNING = 70


def words_of(error: Exception) -> str:
    """Return a library's message in one line, without status codes and places in its source."""
    message = _STATUS.sub("", str(error))
    lines = [_SOURCE_FUNCTION.sub("", line.strip()) for line in message.splitlines()]
    telling = [line for line in lines if line and not line.startswith(_SOURCE_PLACES)]
    words = " ".join(telling or [line for line in lines if line])
    words = _SOURCE_WITHIN.sub("", words).strip() or words
    return _NAMED_TWICE.sub(r'"\1": ', words) or type(error).__name__


def quoted_words(error: Exception) -> str:
    """Return :func:`words_of` in quotes; a long message keeps its end and its files' names."""
    return quoted(shortened(words_of(error)))


def shortened(words: str, most: int = MOST_QUOTED_CHARACTERS) -> str:
    """Return ``words`` in at most ``most`` characters.

    Folders of files are cut first, then the middle: the end usually names the cause.
    """
    if len(words) > most:
        words = _FOLDERS.sub("…/", words)
    if len(words) <= most:
        return words
    start = min(_BEGINNING, most // 3)
    return f"{words[:start]}…{words[len(words) - (most - start - 1) :]}"
