"""Text: StringConcat, StringNormalizer, StringSplit, RegexFullMatch.

Texts are Python strings in arrays of objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ortpkg.foundations.isolation.polling import poll_run
from ortpkg.runtime.kernels.axes import broadcast_shape, element_count
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.runtime.kernels.regular_expressions import RegularExpression

_STRING = np.dtype(object)
_WHITE_SPACE = [character for character in map(chr, range(0x3001)) if character.isspace()]
#: Bytes of a text besides its characters, and of its slot in a list.
_TEXT_NBYTES = 57
#: The same for a text with characters outside ASCII, and the bytes of each of its characters.
_WIDE_TEXT_NBYTES, _WIDE_CHARACTER_NBYTES = 84, 4
#: Number of characters of a text that are changed between two checks of a run's limits.
_CHARACTERS_AT_ONCE = 1 << 14
_TEXTS_AT_ONCE = 1 << 12


def longest_text(x: Tensor) -> int:
    """Return the number of characters of the longest text of a tensor."""
    return max(map(len, x.ravel()), default=0)


def _text_nbytes(length: int, *sources: Tensor) -> int:
    """Return the most bytes of a text of ``length`` characters from the sources, with its slot."""
    if all(text.isascii() for x in sources for text in _polled(x)):
        return _TEXT_NBYTES + length
    return _WIDE_TEXT_NBYTES + _WIDE_CHARACTER_NBYTES * length


@kernel("StringConcat", since=(20,))
def string_concat(_info: OpKernelInfo) -> Compute:
    def compute(context: OpKernelContext, x: Tensor, y: Tensor) -> Tensor:
        shape = broadcast_shape(x.shape, y.shape)
        longest = longest_text(x) + longest_text(y)
        context.check_allocation(element_count(shape) * _text_nbytes(longest, x, y))
        return np.add(x, y, out=context.output(0, shape, _STRING))

    return compute


def _polled(x: Tensor) -> Iterator[str]:
    """Yield the texts of a tensor, with checks of the run's limits between some of them."""
    for number, text in enumerate(x.ravel()):
        if not number % _TEXTS_AT_ONCE:
            poll_run()
        yield text


def _most_parts(text: str, delimiter: str | None) -> int:
    """Return the most parts into which that delimiter can split a text."""
    return 1 + sum(map(text.count, _WHITE_SPACE if delimiter is None else [delimiter]))


@kernel("StringSplit", since=(20,))
def string_split(info: OpKernelInfo) -> Compute:
    """Parts of each string along a new last axis, filled up with "", and their number.

    Without a delimiter strings are split at runs of white space.
    """
    delimiter = info.attribute("delimiter") or None
    most = info.attribute("maxsplit")

    def compute(context: OpKernelContext, x: Tensor) -> tuple[Tensor, Tensor]:
        count = sum(_most_parts(text, delimiter) for text in _polled(x))
        context.check_allocation(_TEXT_NBYTES * count)
        rows = [text.split(delimiter, -1 if most is None else most) for text in _polled(x)]
        longest = max(map(len, rows), default=0)
        parts = context.output(0, (*x.shape, longest), _STRING)
        for number, row in enumerate(rows):
            if not number % _TEXTS_AT_ONCE:
                poll_run()
            target = parts.reshape(len(rows), longest)[number]
            target[:] = row + [""] * (longest - len(row))
        counts = context.output(1, x.shape, np.dtype(np.int64))
        counts[...] = np.array([len(row) for row in rows], dtype=np.int64).reshape(x.shape)
        return parts, counts

    return compute


@kernel("RegexFullMatch", since=(20,))
def regex_full_match(info: OpKernelInfo) -> Compute:
    expression = RegularExpression(str(info.attribute("pattern", "")))

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        out = context.output(0, x.shape, np.dtype(np.bool_))
        matches = [expression.matches_fully(text, context.check_cancelled) for text in x.ravel()]
        out[...] = np.array(matches, dtype=np.bool_).reshape(x.shape)
        return out

    return compute


@kernel("StringNormalizer", since=(10,))
def string_normalizer(info: OpKernelInfo) -> Compute:
    """Texts of a row without the stop words, in another case if requested.

    If nothing is left, the result is one "". Like onnxruntime, and unlike onnx's reference, it
    leaves accents, compares whole elements with the stop words, and changes the case character by
    character, in every locale alike.
    """
    changed = _case_change(str(info.attribute("case_change_action", "NONE")))
    is_exact = bool(info.attribute("is_case_sensitive", 0))
    words = [_text(word) for word in info.attribute("stopwords") or ()]
    stopwords = frozenset(words if is_exact else map(_lower, words))

    def is_kept(text: str) -> bool:
        poll_run()
        return (text if is_exact else _lower(text)) not in stopwords

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        if x.ndim not in (1, 2) or (x.ndim == 2 and x.shape[0] != 1):
            raise ValueError(
                f"StringNormalizer takes texts of shape [C] or [1, C], not {list(x.shape)}"
            )
        context.check_allocation(_TEXT_NBYTES * x.size)
        texts = [changed(text) for text in x.ravel() if is_kept(text)] or [""]
        out = context.output(0, (*x.shape[:-1], len(texts)), _STRING)
        out.reshape(len(texts))[:] = texts
        return out

    return compute


def _case_change(action: str) -> Callable[[str], str]:
    changes: dict[str, Callable[[str], str]] = {"NONE": str, "LOWER": _lower, "UPPER": _upper}
    if action not in changes:
        raise ValueError(f"case_change_action is {action!r}; NONE, LOWER or UPPER was expected")
    return changes[action]


def _lower(text: str) -> str:
    return _by_character(text, lambda character: character.lower()[0])


def _upper(text: str) -> str:
    """Return the text in capitals; a character without a single capital ("ß") stays."""
    return _by_character(
        text, lambda character: character.upper() if len(character.upper()) == 1 else character
    )


def _by_character(text: str, changed: Callable[[str], str]) -> str:
    pieces = []
    for start in range(0, len(text), _CHARACTERS_AT_ONCE):
        poll_run()
        pieces.append("".join(map(changed, text[start : start + _CHARACTERS_AT_ONCE])))
    return "".join(pieces)


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
