"""Secrets that no text of ours may hold, whatever a stranger's answer says to us.

A registry knows the password that it was sent, and may put it into a message, a name or an address.
What goes into messages, logs and outputs passes :func:`redacted`, what is quoted in them
:func:`redacted_quotation`.
"""

from __future__ import annotations

import re
import threading

_SHOWN = "(secret)"
#: Shorter ones are part of many a word, and are hidden only where they stand by themselves.
_LEAST_CHARACTERS = 4
#: Shorter ones could be words of our own.
_LEAST_IN_OUR_TEXTS = 8
#: So much of a secret's beginning is hidden where a text is cut off in it.
_LEAST_CUT_CHARACTERS = 6
#: Scheme of an Authorization header → what follows is the secret.
_HEADER = re.compile(r"(?:Basic|Bearer) (?=\S)")

#: Secret → its forms, and how many hold it.
_hidden: dict[str, tuple[tuple[str, ...], int]] = {}
_lock = threading.RLock()


def hide(secret: str) -> None:
    """Keeps a secret out of all texts, in each of the forms that texts may have it.

    Until :func:`forget` was called as often.
    """
    text = _HEADER.sub("", secret, count=1)
    if text:
        with _lock:
            forms, count = _hidden.get(text) or (_forms(text), 0)
            _hidden[text] = (forms, count + 1)


def forget(secret: str) -> None:
    """Takes one :func:`hide` of a secret back: who held it holds it no more."""
    text = _HEADER.sub("", secret, count=1)
    with _lock:
        forms, count = _hidden.pop(text, ((), 0))
        if count > 1:
            _hidden[text] = (forms, count - 1)


def redacted(text: str) -> str:
    """A whole text of ours without the secrets in it, but for short ones.

    These could be words of our own; they are taken out of what others say, before it is quoted.
    """
    return _without_secrets(text, least_characters=_LEAST_IN_OUR_TEXTS)


def redacted_quotation(text: str) -> str:
    """Return a quotation of somebody else's text, without the secrets in it."""
    return _without_secrets(text, least_characters=1)


def _without_secrets(text: str, *, least_characters: int) -> str:
    if not _hidden:
        return text
    for secret, (forms, _) in sorted(_hidden.copy().items(), key=lambda entry: -len(entry[0])):
        for form in forms:
            if len(form) < least_characters or form not in text:
                continue
            if len(form) >= _LEAST_CHARACTERS:
                text = text.replace(form, _SHOWN)
            else:
                text = re.sub(rf"(?<!\w){re.escape(form)}(?!\w)", _SHOWN, text)
        text = _without_beginning(text, secret)
    return text


def _without_beginning(text: str, secret: str) -> str:
    """A text that was cut off inside of a secret, without the part of it that is left."""
    for nbytes in range(min(len(secret) - 1, len(text)), _LEAST_CUT_CHARACTERS - 1, -1):
        if text.endswith(secret[:nbytes]):
            return text[:-nbytes] + _SHOWN
    return text


def _forms(text: str) -> tuple[str, ...]:
    # Imported here: who has no secrets needs none of them.
    import json
    from urllib.parse import quote, quote_plus

    plain = (
        text,
        repr(text)[1:-1],
        json.dumps(text)[1:-1],
        json.dumps(text, ensure_ascii=False)[1:-1],
        quote(text, safe=""),
        quote_plus(text),
    )
    return tuple(sorted({*plain, *_in_base64(text)}, key=len, reverse=True))


def _in_base64(text: str) -> list[str]:
    """The characters that the text has in Base64 wherever it stands in what is encoded."""
    import base64

    content = text.encode(errors="replace")
    forms = [base64.b64encode(content).decode()]
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + content).decode().rstrip("=")
        complete = encoded[(8 * offset + 5) // 6 : (8 * (offset + len(content))) // 6]
        if len(complete) >= _LEAST_CUT_CHARACTERS:
            forms.append(complete)
    return [*forms, *(form.translate(str.maketrans("+/", "-_")) for form in forms)]
