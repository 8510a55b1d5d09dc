r"""Regular expressions whose time is linear in the text, for the kernel of RegexFullMatch.

A pattern comes from a model, so it is untrusted, and Python's own ``re`` can take exponential time
on a short one and cannot be stopped. This works like RE2 (which ONNX names as the syntax): the
pattern becomes an automaton, whose possible states move over the text together. Not supported, each
with a ValueError that says so: Unicode classes (``\\p``), ``\\Q``, ``\\C``, and what RE2 lacks, too
(back-references, look-around).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ortpkg.foundations.errors import quoted
from ortpkg.graph.load_control import poll_load

_MOST_STATES = 10_000
_MOST_REPEATS = 1000
_MOST_DEPTH = 100
#: Most characters of a pattern; 10,000 classes of ten characters each have as many.
_MOST_CHARACTERS = 100_000
#: Work between two checks: characters of the text, times the states that look at them.
_CHECK_EVERY = 10_000
_WORD = re.compile(r"\w", re.ASCII)
_POSIX_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "ascii": "\\x00-\\x7f",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\s",
    "upper": "A-Z",
    "word": "\\w",
    "xdigit": "0-9a-fA-F",
}

_ASSERTIONS = {"A": "begin", "z": "end", "b": "boundary", "B": "no boundary"}

CharacterTest = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class _Character:
    test: CharacterTest


@dataclass(frozen=True, slots=True)
class _Assertion:
    name: str


@dataclass(frozen=True, slots=True)
class _Sequence:
    parts: list[_Node]


@dataclass(frozen=True, slots=True)
class _Alternatives:
    parts: list[_Node]


@dataclass(frozen=True, slots=True)
class _Repeat:
    part: _Node
    least: int
    most: int | None


_Node = _Character | _Assertion | _Sequence | _Alternatives | _Repeat


@dataclass(slots=True)
class _State:
    """One state: ``test`` consumes a character, ``assertion`` none, else ``following`` all hold."""

    following: list[int] = field(default_factory=list)
    test: CharacterTest | None = None
    assertion: str = ""


class RegularExpression:
    """Compiled pattern. Raises ValueError if it is malformed, unsupported or too large."""

    def __init__(self, pattern: str) -> None:
        node = _Parser(pattern).parse()
        self._states: list[_State] = []
        self._built = 0
        self._accepting = self._add(_State())
        self._start = self._build(node, self._accepting)

    def matches_fully(self, text: str, check: Callable[[], None]) -> bool:
        """Return True if the whole of ``text`` matches.

        ``check`` is called now and then, and may raise to end it.
        """
        current = self._closure([self._start], "", text[:1])
        looked_at = _CHECK_EVERY
        for position, character in enumerate(text):
            if not current:
                return False
            looked_at += len(current)
            if looked_at > _CHECK_EVERY:
                check()
                looked_at = 0
            moved = (
                state.following[0]
                for state in map(self._states.__getitem__, current)
                if _takes(state, character)
            )
            current = self._closure(moved, character, text[position + 1 : position + 2])
        return self._accepting in current

    def _closure(self, states: Iterable[int], before: str, after: str) -> list[int]:
        """Return the states reached without a character between ``before`` and ``after``.

        Either is "" at an end of the text.
        """
        pending = list(states)
        reached: dict[int, None] = {}
        while pending:
            index = pending.pop()
            if index in reached:
                continue
            reached[index] = None
            state = self._states[index]
            if state.test is None and (
                not state.assertion or _holds(state.assertion, before, after)
            ):
                pending += state.following
        return list(reached)

    def _add(self, state: _State) -> int:
        self._states.append(state)
        return len(self._states) - 1

    def _build(self, node: _Node, after: int) -> int:
        """Add the states of ``node``, which go on to ``after``; return the first of them."""
        self._built += 1
        if self._built > _MOST_STATES:  # counted apart from states: repeats of nothing add none
            raise _too_many_states()
        match node:
            case _Character(test):
                return self._add(_State([after], test=test))
            case _Assertion(name):
                return self._add(_State([after], assertion=name))
            case _Sequence(parts):
                for part in reversed(parts):
                    after = self._build(part, after)
                return after
            case _Alternatives(parts):
                return self._add(_State([self._build(part, after) for part in parts]))
            case _Repeat(part, least, most):
                return self._build_repeat(part, least, most, after)

    def _build_repeat(self, part: _Node, least: int, most: int | None, after: int) -> int:
        if most is None:
            loop = self._add(_State([after]))
            self._states[loop].following.append(self._build(part, loop))
            after = loop
        else:
            for _ in range(most - least):
                after = self._add(_State([self._build(part, after), after]))
        for _ in range(least):
            after = self._build(part, after)
        return after


def _too_many_states() -> ValueError:
    return ValueError(f"the regular expression needs more than {_MOST_STATES} states")


def _takes(state: _State, character: str) -> bool:
    return state.test is not None and state.test(character)


def _holds(assertion: str, before: str, after: str) -> bool:
    match assertion:
        case "begin":
            return not before
        case "end":
            return not after
        case "line begin":
            return before in ("", "\n")
        case "line end":
            return after in ("", "\n")
    at_boundary = bool(_WORD.match(before)) != bool(_WORD.match(after))
    return at_boundary == (assertion == "boundary")


class _Parser:
    """Recursive-descent parser of RE2's syntax."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > _MOST_CHARACTERS:
            raise ValueError(
                f"the regular expression has {len(pattern)} characters, more than"
                f" {_MOST_CHARACTERS}"
            )
        self._pattern = pattern
        self._at = 0
        self._atoms = 0
        self._flags = ""
        self._depth = 0

    def parse(self) -> _Node:
        node = self._alternatives()
        if self._at < len(self._pattern):
            raise self._error("has a ')' without its '('")
        return node

    def _error(self, problem: str) -> ValueError:
        return ValueError(
            f"the regular expression {quoted(self._pattern)} {problem} (position {self._at})"
        )

    def _next(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _take(self, expected: str) -> bool:
        if self._pattern.startswith(expected, self._at):
            self._at += len(expected)
            return True
        return False

    def _alternatives(self) -> _Node:
        flags, parts = self._flags, [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        self._flags = flags
        return parts[0] if len(parts) == 1 else _Alternatives(parts)

    def _sequence(self) -> _Node:
        parts: list[_Node] = []
        while self._next() not in ("", "|", ")"):
            node = self._atom()
            counts = self._quantifier()
            if counts is not None:
                node = _Repeat(node, *counts)
                if self._quantifier() is not None:
                    raise self._error("repeats a repetition")
            parts.append(node)
        return _Sequence(parts)

    def _quantifier(self) -> tuple[int, int | None] | None:
        counts: tuple[int, int | None] | None = None
        match = re.compile(r"\{(\d{1,9})(,?)(\d{0,9})\}").match(self._pattern, self._at)
        if match is not None:
            least, most = (
                int(match[1]),
                int(match[3]) if match[3] else None if match[2] else int(match[1]),
            )
            if max(least, most or 0) > _MOST_REPEATS or (most is not None and most < least):
                raise self._error(
                    f"repeats {quoted(match[0])}: at most {_MOST_REPEATS} times, least first"
                )
            self._at, counts = match.end(), (least, most)
        elif self._next() in ("*", "+", "?") and self._next():
            counts = {"*": (0, None), "+": (1, None), "?": (0, 1)}[self._next()]
            self._at += 1
        if counts is not None:
            self._take("?")  # lazy or greedy: the same texts match as a whole
        return counts

    def _atom(self) -> _Node:
        poll_load()
        self._atoms += 1
        if self._atoms > _MOST_STATES:
            raise _too_many_states()
        if self._take("("):
            return self._group()
        if self._take("^"):
            return _Assertion("line begin" if "m" in self._flags else "begin")
        if self._take("$"):
            return _Assertion("line end" if "m" in self._flags else "end")
        if self._next() == "[":
            return self._class()
        if self._next() == "\\":
            return self._escape()
        if self._next() in ("*", "+", "?"):
            raise self._error("repeats nothing")
        self._at += 1
        character = self._pattern[self._at - 1]
        return self._character("." if character == "." else re.escape(character))

    def _character(self, expression: str) -> _Node:
        """Return a test for one character, by one of Python's patterns."""
        flags = (re.IGNORECASE if "i" in self._flags else 0) | (
            re.DOTALL if "s" in self._flags else 0
        )
        # RE2's \d, \s, \w are ASCII
        ascii_only = re.ASCII if "\\" in expression and "i" not in self._flags else 0
        try:
            compiled = re.compile(expression, flags | ascii_only)
        except re.error as error:
            raise self._error(f"has a malformed class: {error.msg}") from None
        return _Character(lambda character: compiled.match(character) is not None)

    def _group(self) -> _Node:
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise self._error(f"nests more than {_MOST_DEPTH} groups")
        outer = self._flags
        if self._take("?"):
            opening = re.compile(r"P?<\w+>|([imsU]*)(?:-([imsU]+))?([:)])").match(
                self._pattern, self._at
            )
            if opening is None:
                raise self._error("uses look-around or another group that RE2 has not")
            self._at = opening.end()
            self._flags = "".join(
                sorted((set(outer) | set(opening[1] or "")) - set(opening[2] or ""))
            )
            if opening[3] == ")":  # flags for the rest of the group around it
                self._depth -= 1
                return _Sequence([])
        node = self._alternatives()
        if not self._take(")"):
            raise self._error("has a '(' without its ')'")
        self._flags = outer
        self._depth -= 1
        return node

    def _escape(self) -> _Node:
        match = re.compile(
            r"\\(?:x[0-9a-fA-F]{2}|x\{[0-9a-fA-F]{1,6}\}|0[0-7]{0,2}|[^\d\w]|[AzbBdDsSwWaftnrv])"
        ).match(self._pattern, self._at)
        if match is None:
            raise self._error(
                f"uses {quoted(self._pattern[self._at : self._at + 2])}, which is not supported"
            )
        self._at, text = match.end(), match[0][1:]
        if text in _ASSERTIONS:
            return _Assertion(_ASSERTIONS[text])
        if text.startswith("x{"):
            return self._character(self._code_point(text[2:-1]))
        return self._character(match[0])

    def _code_point(self, digits: str) -> str:
        if int(digits, 16) > 0x10FFFF:
            raise self._error("names a code point beyond Unicode")
        return re.escape(chr(int(digits, 16)))

    def _class(self) -> _Node:
        start = self._at
        self._at += 1
        self._take("^")
        self._take("]")  # a first ']' stands for itself
        parts: list[str] = []
        while not self._take("]"):
            begin = self._at
            posix = re.compile(r"\[:(\^?)(\w+):\]").match(self._pattern, self._at)
            if posix is not None and posix[2] in _POSIX_CLASSES and not posix[1]:
                self._at = posix.end()
                parts.append(_POSIX_CLASSES[posix[2]])
            elif self._take("\\"):
                if self._next() in "pPQC":
                    raise self._error("uses a Unicode class, which is not supported")
                self._at += 1
                parts.append(self._pattern[begin : self._at])
            elif self._next() == "":
                raise self._error("has a '[' without its ']'")
            else:
                self._at += 1
                # Python reads "[[", "&&", "||" and "~~" as set operations to come; RE2 does not.
                character = self._pattern[begin]
                parts.append("\\" + character if character in "[&|~" else character)
        opening = re.compile(r"\[\^?\]?").match(self._pattern, start)
        assert opening is not None
        return self._character(opening[0].replace("]", "\\]") + "".join(parts) + "]")
