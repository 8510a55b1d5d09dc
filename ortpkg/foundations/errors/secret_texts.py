"""Removes secrets from messages, logs and outputs.

A registry knows the password that it was sent, and may repeat it in a message, a name or an
address. Texts of ortpkg pass through :func:`redacted`, quotations in them through
:func:`redacted_quotation`.
"""

from __future__ import annotations

import re
import threading

_SHOWN = "(secret)"
#: Shorter secrets may be part of words, and are hidden only as whole words.
_LEAST_CHARACTERS = 4
#: Shorter ones could be words of our own.
_LEAST_IN_OUR_TEXTS = 8
#: Shorter ones could be part of the name of a host, or of a key in a document.
_LEAST_IN_ANSWERS = 6
#: Smallest part of a secret that is hidden where a text is cut off inside the secret.
_LEAST_CUT_CHARACTERS = 6
#: Shorter forms could be words or names in another case, and are hidden only as they are written.
_LEAST_IN_ANY_CASE = 8
#: Shorter beginnings of a secret could be words in another case, e.g. of "identity-1".
_LEAST_CUT_IN_ANY_CASE = 12
#: Scheme of an Authorization header, which the secret follows.
_HEADER = re.compile(r"(?:Basic|Bearer) (?=\S)")
_ESCAPE = re.compile("%[0-9A-F]{2}")

#: Forms of each secret, and the number of its holders.
_hidden: dict[str, tuple[tuple[str, ...], int]] = {}
_lock = threading.RLock()


def hide(secret: str) -> None:
    """Hide a secret, in all its encoded forms, from texts.

    It stays hidden until :func:`forget` was called as often as this function.
    """
    text = _HEADER.sub("", secret, count=1)
    if text:
        with _lock:
            forms, count = _hidden.get(text) or (_forms(text), 0)
            _hidden[text] = (forms, count + 1)


def forget(secret: str) -> None:
    """Undo one :func:`hide` of a secret."""
    text = _HEADER.sub("", secret, count=1)
    with _lock:
        forms, count = _hidden.pop(text, ((), 0))
        if count > 1:
            _hidden[text] = (forms, count - 1)


def redacted(text: str) -> str:
    """Return a text of ortpkg's own without secrets, except short ones.

    A short secret could be a word of the text; quotations are cleaned of it before they are quoted.
    """
    return _without_secrets(text, least_characters=_LEAST_IN_OUR_TEXTS)


def redacted_quotation(text: str) -> str:
    """Return a quotation of somebody else's text, without the secrets in it."""
    return _without_secrets(text, least_characters=1)


def redacted_answer(text: str) -> str:
    """Return a text of ortpkg's own that holds parts of somebody's answer, without secrets."""
    return _without_secrets(text, least_characters=_LEAST_IN_ANSWERS)


def _without_secrets(text: str, *, least_characters: int) -> str:
    if not _hidden:
        return text
    for secret, (forms, _) in sorted(_hidden.copy().items(), key=lambda entry: -len(entry[0])):
        for form in forms:
            if len(form) < least_characters or form.lower() not in text.lower():
                continue
            if len(form) >= _LEAST_IN_ANY_CASE:
                text = re.sub(re.escape(form), _SHOWN, text, flags=re.IGNORECASE)
            elif len(form) >= _LEAST_CHARACTERS:
                text = text.replace(form, _SHOWN)
            else:
                text = re.sub(rf"(?<!\w){re.escape(form)}(?!\w)", _SHOWN, text)
        text = _without_beginning(text, secret)
    return text


def _without_beginning(text: str, secret: str) -> str:
    """Return the text without the beginning of the secret at its end, where it was cut off."""
    for nbytes in range(min(len(secret) - 1, len(text)), _LEAST_CUT_CHARACTERS - 1, -1):
        beginning, end = secret[:nbytes], text[-nbytes:]
        is_long = nbytes >= _LEAST_CUT_IN_ANY_CASE
        if end == beginning or (is_long and end.lower() == beginning.lower()):
            return text[:-nbytes] + _SHOWN
    return text


def _forms(text: str) -> tuple[str, ...]:
    forms = {*_written(text), *_in_base64(text)}
    if len(text) >= _LEAST_IN_ANY_CASE:  # letters in another case
        forms |= _written(text.upper())
    in_hex = text.encode(errors="replace").hex()
    if len(in_hex) >= _LEAST_IN_ANY_CASE:  # shorter ones may be part of any digest
        forms.add(in_hex)
    return tuple(sorted(forms, key=len, reverse=True))


def _written(text: str) -> set[str]:
    """Return the text as Python, JSON, addresses and pages write it."""
    # Imported here, because processes without secrets do not need them.
    import html
    import json
    from urllib.parse import quote, quote_plus

    in_html = html.escape(text)
    in_addresses = (quote(text, safe=""), quote_plus(text))
    return {
        text,
        repr(text)[1:-1],
        json.dumps(text)[1:-1],
        json.dumps(text, ensure_ascii=False)[1:-1],
        *in_addresses,
        *(_ESCAPE.sub(lambda match: match[0].lower(), form) for form in in_addresses),
        in_html,
        html.escape(text, quote=False),
        in_html.replace("&#x27;", "&#39;"),
        in_html.replace("&#x27;", "&#39;").replace("&quot;", "&#34;"),
    }


def _in_base64(text: str) -> list[str]:
    """Return the Base64 characters of the text at each of its three offsets in encoded content."""
    import base64

    content = text.encode(errors="replace")
    forms = [base64.b64encode(content).decode()]
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + content).decode().rstrip("=")
        complete = encoded[(8 * offset + 5) // 6 : (8 * (offset + len(content))) // 6]
        if len(complete) >= _LEAST_CUT_CHARACTERS:
            forms.append(complete)
    return [*forms, *(form.translate(str.maketrans("+/", "-_")) for form in forms)]
