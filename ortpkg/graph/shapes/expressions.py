"""Sizes as expressions: integers and symbols, their sums and products, and operations on them.

A size is an ``int`` if it is known, else an :class:`Expression`: a polynomial with integer
coefficients over *atoms*. An atom is a symbol, or an operation over sizes that is no polynomial: a
floor quotient, a remainder, a maximum, a minimum, the broadcast of two sizes, or one size unless it
is
0, else another. Equal sizes have equal polynomials, so ``==`` and ``hash`` decide. An expression
that is too large to keep is replaced by a new symbol.

All symbols are sizes of dimensions: 0 or more.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

#: Bounds of an expression, which an untrusted model must not exceed.
_MOST_TERMS = 24
_MOST_DEPTH = 12
_MOST_FACTORS = 8
#: Most atoms, counted with repetitions, since sorting, comparing and printing visit all of them.
_MOST_ATOMS = 512
#: Most characters of all atoms, whose names a model chooses and operations contain as text.
_MOST_CHARACTERS = 4096
#: Largest number: 64 bits hold all sizes of tensors and all numbers that models compute from them.
_MOST_NUMBER = 1 << 64


class TooLargeError(ArithmeticError):
    """The expression would exceed the bounds; callers use a new symbol instead."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """A size that the model leaves open.

    ``is_anonymous`` is True if the model gives it no name, and this one is made up.
    """

    name: str
    is_anonymous: bool = False

    @property
    def depth(self) -> int:
        """Nesting depth of operations: 0, since a symbol contains none."""
        return 0

    @property
    def atom_count(self) -> int:
        """Number of atoms: 1, the symbol itself."""
        return 1

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation over two sizes that is no polynomial.

    Its properties are computed once, since sizes are compared often.

    Attributes:
        kind: a key of :data:`_OPERATIONS`.
        left, right: the operands.
        depth: nesting depth of operations.
        atom_count: number of atoms in it, including itself.
        text: the operation as text, for people.
    """

    kind: str
    left: Size
    right: Size
    depth: int = field(init=False, compare=False, repr=False)
    atom_count: int = field(init=False, compare=False, repr=False)
    text: str = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        left, right = self.left, self.right
        text = (
            f"floor({_bracketed(left, ' ')}/{_bracketed(right, ' */')})"
            if self.kind == "floor"
            else f"{self.kind}({left}, {right})"
        )
        object.__setattr__(self, "depth", 1 + max(depth_of(left), depth_of(right)))
        object.__setattr__(self, "atom_count", 1 + atom_count_of(left) + atom_count_of(right))
        object.__setattr__(self, "text", text)

    def __str__(self) -> str:
        return self.text


Atom = Symbol | Operation
#: Atoms that are multiplied, sorted; () is the number 1.
Monomial = tuple[Atom, ...]


def _bracketed(size: Size, operators: str) -> str:
    """Return the size as text, in brackets if it contains one of these characters."""
    text = str(size)
    return f"({text})" if any(character in text for character in operators) else text


def broadcast_numbers(left: int, right: int) -> int:
    """Return the size that two broadcast to; ValueError if they do not."""
    if left != right and 1 not in {left, right}:
        raise ValueError(f"sizes {left} and {right} do not broadcast")
    return right if left == 1 else left


_OPERATIONS: Mapping[str, Callable[[int, int], int]] = {
    "floor": operator.floordiv,
    "mod": operator.mod,
    "max": max,
    "min": min,
    "broadcast": broadcast_numbers,
    "or": lambda left, right: left or right,
}


@dataclass(frozen=True, slots=True)
class Expression:
    """A polynomial over atoms, without terms of coefficient 0.

    A mere number is an ``int`` instead.
    """

    terms: tuple[tuple[Monomial, int], ...]

    @property
    def depth(self) -> int:
        """Nesting depth of operations."""
        return max(atom.depth for atom in self.atoms())

    def atoms(self) -> Iterator[Atom]:
        """Yield every atom, with repetitions."""
        for monomial, _ in self.terms:
            yield from monomial

    @property
    def symbol(self) -> Symbol | None:
        """The symbol that the expression consists of; None if it is anything else."""
        (monomial, coefficient), *rest = self.terms
        if rest or coefficient != 1 or len(monomial) != 1:
            return None
        return monomial[0] if isinstance(monomial[0], Symbol) else None

    def __add__(self, other: Size) -> Size:
        return size_of_terms(_sum(self.terms, terms_of(other)))

    __radd__ = __add__

    def __neg__(self) -> Size:
        return self * -1

    def __sub__(self, other: Size) -> Size:
        return self + other * -1

    def __rsub__(self, other: Size) -> Size:
        return self * -1 + other

    def __mul__(self, other: Size) -> Size:
        if isinstance(other, int):  # the order of the terms does not change
            scaled = ((factors, count * other) for factors, count in self.terms)
            return size_of_terms(tuple(scaled)) if other else 0
        total: tuple[tuple[Monomial, int], ...] = ()
        for left, times in self.terms:
            row = tuple((_product(left, right), times * count) for right, count in terms_of(other))
            total = _sum(total, row)
        return size_of_terms(total)

    __rmul__ = __mul__

    def __str__(self) -> str:
        text = ""
        for monomial, coefficient in self.terms:
            sign = "-" if coefficient < 0 else "+"
            factors = [str(abs(coefficient))] if abs(coefficient) != 1 or not monomial else []
            factors += [f"({atom})" if _needs_brackets(atom) else str(atom) for atom in monomial]
            shown = "*".join(factors)
            text += f" {sign} {shown}" if text else f"-{shown}" if sign == "-" else shown
        return text


#: A size of a dimension, or a number computed from sizes: a known number, or an expression.
Size = int | Expression


def _needs_brackets(atom: Atom) -> bool:
    return isinstance(atom, Symbol) and not atom.name.replace(".", "_").isidentifier()


def symbol(name: str, *, is_anonymous: bool = False) -> Expression:
    """Return the size of that name."""
    return Expression((((Symbol(name, is_anonymous),), 1),))


def depth_of(size: Size) -> int:
    """Return the nesting depth of operations in a size; 0 for a number."""
    return 0 if isinstance(size, int) else size.depth


def atom_count_of(size: Size) -> int:
    """Return the number of atoms in a size, also inside operations; 0 for a number."""
    return 0 if isinstance(size, int) else sum(atom.atom_count for atom in size.atoms())


def terms_of(size: Size) -> tuple[tuple[Monomial, int], ...]:
    """Return the terms whose sum the size is; none for 0."""
    if isinstance(size, Expression):
        return size.terms
    return (((), size),) if size else ()


def _key(atom: Atom) -> tuple[int, str]:
    return (0 if isinstance(atom, Symbol) else 1, str(atom))


def _order(monomial: Monomial) -> tuple[int, list[tuple[int, str]]]:
    return -len(monomial), [_key(atom) for atom in monomial]


def _product(left: Monomial, right: Monomial) -> Monomial:
    if len(left) + len(right) > _MOST_FACTORS:
        raise TooLargeError
    return tuple(sorted((*left, *right), key=_key)) if left and right else left or right


def _sum(
    left: tuple[tuple[Monomial, int], ...], right: tuple[tuple[Monomial, int], ...]
) -> tuple[tuple[Monomial, int], ...]:
    coefficients = dict(left)
    for monomial, coefficient in right:
        coefficients[monomial] = coefficients.get(monomial, 0) + coefficient
    terms = [
        (monomial, coefficient) for monomial, coefficient in coefficients.items() if coefficient
    ]
    if len(terms) > _MOST_TERMS:
        raise TooLargeError
    return (
        tuple(sorted(terms, key=lambda term: _order(term[0]))) if len(terms) > 1 else tuple(terms)
    )


def size_of_terms(terms: tuple[tuple[Monomial, int], ...]) -> Size:
    """Return the sum of terms that all have different factors.

    Raises:
        TooLargeError: if there are too many atoms, or a number is too large.
    """
    if not terms:
        return 0
    if len(terms) == 1 and not terms[0][0]:
        return bounded(terms[0][1])
    made = Expression(terms)
    atom_count = character_count = 0
    for monomial, coefficient in terms:
        bounded(coefficient)
        for atom in monomial:
            atom_count += atom.atom_count
            character_count += len(str(atom))
    if atom_count > _MOST_ATOMS or (character_count > _MOST_CHARACTERS and made.symbol is None):
        raise TooLargeError
    return made


def bounded(number: int) -> int:
    """Return the number; TooLargeError if it exceeds all sizes and numbers computed from them."""
    if abs(number) > _MOST_NUMBER:
        raise TooLargeError
    return number


def operation(kind: str, left: Size, right: Size) -> Size:
    """Return the operation on sizes, or its number; TooLargeError if it exceeds the bounds."""
    if isinstance(left, int) and isinstance(right, int):
        return _OPERATIONS[kind](left, right)
    for number in (left, right):
        if isinstance(number, int):
            bounded(number)
    made = Operation(kind, left, right)
    if (
        made.depth > _MOST_DEPTH
        or made.atom_count > _MOST_ATOMS
        or len(made.text) > _MOST_CHARACTERS
    ):
        raise TooLargeError
    return Expression((((made,), 1),))


def evaluate(size: Size, values: Mapping[str, int]) -> int:
    """Return the value of the expression for these values of its symbols.

    Raises:
        KeyError: names a symbol without a value.
        ZeroDivisionError, ValueError: if the values make no size.
    """
    if isinstance(size, int):
        return size
    total = 0
    for monomial, coefficient in size.terms:
        total += coefficient * math.prod(_value(atom, values) for atom in monomial)
    return total


def _value(atom: Atom, values: Mapping[str, int]) -> int:
    if isinstance(atom, Symbol):
        return values[atom.name]
    return _OPERATIONS[atom.kind](evaluate(atom.left, values), evaluate(atom.right, values))


def symbols_of(size: Size) -> frozenset[Symbol]:
    """Return all symbols in a size, also inside operations."""
    if isinstance(size, int):
        return frozenset()
    symbols: frozenset[Symbol] = frozenset()
    for atom in size.atoms():
        inner = (
            {atom} if isinstance(atom, Symbol) else symbols_of(atom.left) | symbols_of(atom.right)
        )
        symbols |= inner
    return symbols
