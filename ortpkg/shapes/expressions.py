"""Sizes as expressions: integers and symbols; their sums, products, quotients, larger, smaller.

A size is an ``int`` where it is known, else an :class:`Expression`: a polynomial with integer
coefficients over *atoms*. An atom is a symbol, or an operation over sizes that is no polynomial: a
floor quotient, a remainder, a maximum, a minimum, what two sizes broadcast to, one size where it is
not 0, else another. Equal sizes have equal polynomials, so ``==`` and ``hash`` decide; what is too
large to be worth keeping becomes a new symbol where it is used.

All symbols are sizes of dimensions: 0 or more.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce

#: Bounds of an expression: a stranger's model must not make it grow.
_MOST_TERMS = 24
_MOST_DEPTH = 12
_MOST_FACTORS = 8


class TooLargeError(ArithmeticError):
    """The expression would pass the bounds; whoever computes takes a new symbol instead."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """A size that the model leaves open.

    ``is_anonymous``: the model gives it no name, and this one is made up.
    """

    name: str
    is_anonymous: bool = False

    @property
    def depth(self) -> int:
        """0: operations that are nested in it."""
        return 0

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation over two sizes that is no polynomial.

    ``kind`` is a key of :data:`_OPERATIONS`.
    """

    kind: str
    left: Size
    right: Size

    @property
    def depth(self) -> int:
        """How deep operations are nested in it."""
        return 1 + max(depth_of(self.left), depth_of(self.right))

    def __str__(self) -> str:
        if self.kind == "floor":
            return f"floor({_bracketed(self.left, ' ')}/{_bracketed(self.right, ' */')})"
        return f"{self.kind}({self.left}, {self.right})"


Atom = Symbol | Operation
#: Atoms that are multiplied, sorted; () is the number 1.
Monomial = tuple[Atom, ...]


def _bracketed(size: Size, operators: str) -> str:
    """The size as text, in brackets where it has one of these characters."""
    text = str(size)
    return f"({text})" if any(character in text for character in operators) else text


def _broadcast_sizes(left: int, right: int) -> int:
    if left != right and 1 not in {left, right}:
        raise ValueError(f"sizes {left} and {right} do not broadcast")
    return right if left == 1 else left


_OPERATIONS: Mapping[str, Callable[[int, int], int]] = {
    "floor": operator.floordiv,
    "mod": operator.mod,
    "max": max,
    "min": min,
    "broadcast": _broadcast_sizes,
    "or": lambda left, right: left or right,
}


@dataclass(frozen=True, slots=True)
class Expression:
    """A polynomial over atoms, with no term of coefficient 0.

    Never a mere number, which is an ``int``.
    """

    terms: tuple[tuple[Monomial, int], ...]

    @property
    def depth(self) -> int:
        """How deep operations are nested in it."""
        return max(atom.depth for atom in self.atoms())

    def atoms(self) -> Iterator[Atom]:
        """Every atom, as often as it stands."""
        for monomial, _ in self.terms:
            yield from monomial

    @property
    def symbol(self) -> Symbol | None:
        """The symbol that it is, where it is no more than one."""
        (monomial, coefficient), *rest = self.terms
        if rest or coefficient != 1 or len(monomial) != 1:
            return None
        return monomial[0] if isinstance(monomial[0], Symbol) else None

    def __add__(self, other: Size) -> Size:
        return _made(_sum(self.terms, _terms(other)))

    __radd__ = __add__

    def __neg__(self) -> Size:
        return self * -1

    def __sub__(self, other: Size) -> Size:
        return self + other * -1

    def __rsub__(self, other: Size) -> Size:
        return self * -1 + other

    def __mul__(self, other: Size) -> Size:
        total: tuple[tuple[Monomial, int], ...] = ()
        for left, times in self.terms:
            row = tuple((_product(left, right), times * count) for right, count in _terms(other))
            total = _sum(total, row)
        return _made(total)

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


#: A size of a dimension, or a number computed from such: known, or an expression.
Size = int | Expression


def _needs_brackets(atom: Atom) -> bool:
    return isinstance(atom, Symbol) and not atom.name.replace(".", "_").isidentifier()


def symbol(name: str, *, is_anonymous: bool = False) -> Expression:
    """The size of that name."""
    return Expression((((Symbol(name, is_anonymous),), 1),))


def depth_of(size: Size) -> int:
    """How deep operations are nested in a size; 0 for a number."""
    return 0 if isinstance(size, int) else size.depth


def _terms(size: Size) -> tuple[tuple[Monomial, int], ...]:
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
    found = dict(left)
    for monomial, coefficient in right:
        found[monomial] = found.get(monomial, 0) + coefficient
    kept = [(monomial, coefficient) for monomial, coefficient in found.items() if coefficient]
    if len(kept) > _MOST_TERMS:
        raise TooLargeError
    return tuple(sorted(kept, key=lambda term: _order(term[0]))) if len(kept) > 1 else tuple(kept)


def _made(terms: tuple[tuple[Monomial, int], ...]) -> Size:
    if not terms:
        return 0
    if len(terms) == 1 and not terms[0][0]:
        return terms[0][1]
    return Expression(terms)


def _operation(kind: str, left: Size, right: Size) -> Size:
    if isinstance(left, int) and isinstance(right, int):
        return _OPERATIONS[kind](left, right)
    made = Operation(kind, left, right)
    if made.depth > _MOST_DEPTH:
        raise TooLargeError
    return Expression((((made,), 1),))


def floor_divide(left: Size, right: Size) -> Size:
    """``left // right``, exactly divided where every coefficient allows it.

    ZeroDivisionError for a divisor of 0.
    """
    if right == 0:
        raise ZeroDivisionError("a size is divided by 0")
    if right == 1:
        return left
    if left == right and is_positive(right):
        return 1
    exact = divide_exactly(left, right)
    if exact is not None:
        return exact
    if isinstance(right, int) and right > 0 and isinstance(left, Expression):
        # What the divisor divides stands outside: (4*N + 3) // 2 is 2*N + 1.
        outside = tuple(
            (monomial, count // right)
            for monomial, count in left.terms
            if not count % right or not monomial
        )
        inside = tuple(
            (monomial, count % right if not monomial else count)
            for monomial, count in left.terms
            if count % right
        )
        rest = _made(inside)
        quotient = 0 if rest == 0 else _operation("floor", rest, right)
        return _made(tuple(term for term in outside if term[1])) + quotient
    return _operation("floor", left, right)


def divide_exactly(left: Size, right: Size) -> Size | None:
    """The quotient where ``right``, a number or one term, divides every term of ``left``.

    None where it does not.

    A symbol of the divisor may be 0, and then there is no quotient; whoever divides has ruled that
    out.
    """
    if right == 0:
        return None
    divisor = _terms(right)
    if len(divisor) != 1:
        return 1 if left == right else None
    monomial, coefficient = divisor[0]
    found = []
    for own, count in _terms(left):
        remaining = list(own)
        for atom in monomial:
            if atom not in remaining:
                return None
            remaining.remove(atom)
        if count % coefficient:
            return None
        found.append((tuple(remaining), count // coefficient))
    return _made(tuple(found))


def remainder(left: Size, right: Size) -> Size:
    """``left % right``. ZeroDivisionError for a divisor of 0."""
    if right == 0:
        raise ZeroDivisionError("a size is divided by 0")
    if right == 1 or divide_exactly(left, right) is not None:
        return 0
    return _operation("mod", left, right)


def ceil_divide(left: Size, right: Size) -> Size:
    """The least whole number of ``right``, which is 1 or more, that cover ``left``."""
    return floor_divide(left + right - 1, right)


def larger(left: Size, right: Size) -> Size:
    """The larger of two, without an operation where it is clear which."""
    if is_at_least(left, right):
        return left
    if is_at_least(right, left):
        return right
    first, second = sorted((left, right), key=str)
    return _operation("max", first, second)


def smaller(left: Size, right: Size) -> Size:
    """The smaller of two, without an operation where it is clear which."""
    if is_at_least(left, right):
        return right
    if is_at_least(right, left):
        return left
    first, second = sorted((left, right), key=str)
    return _operation("min", first, second)


def broadcast(left: Size, right: Size) -> Size:
    """The size that two dimensions broadcast to. ValueError where they are known not to."""
    if left == right or right == 1:
        return left
    if left == 1:
        return right
    if isinstance(left, int) and isinstance(right, int):
        return _broadcast_sizes(left, right)
    if isinstance(left, int) or isinstance(right, int):
        return left if isinstance(left, int) else right  # the other is it, or 1
    if _is_either(right, left) or _is_either(left, right):
        return left if _is_either(right, left) else right
    first, second = sorted((left, right), key=str)
    return _operation("broadcast", first, second)


def either(size: Size, otherwise: Size) -> Size:
    """``size``, or ``otherwise`` where it is 0."""
    if size == 0 or is_positive(size) or size == otherwise:
        return otherwise if size == 0 else size
    return _operation("or", size, otherwise)


def _is_either(size: Expression, first: Expression) -> bool:
    """Whether ``size`` is ``first`` where that is not 0."""
    (monomial, count), *rest = size.terms
    if rest or count != 1 or len(monomial) != 1:
        return False
    (atom,) = monomial
    return isinstance(atom, Operation) and atom.kind == "or" and atom.left == first


def product(sizes: Iterator[Size] | tuple[Size, ...] | list[Size]) -> Size:
    """Of all; 1 of none."""
    found = list(sizes)
    if any(isinstance(size, int) and size == 0 for size in found):
        return 0
    known = math.prod(size for size in found if isinstance(size, int))
    return reduce(operator.mul, (size for size in found if not isinstance(size, int)), known)


def total(*sizes: Size) -> Size:
    """The sum of all; 0 of none."""
    return reduce(operator.add, sizes, 0)


def least(size: Size) -> float:
    """A number that the size is never below, with every symbol 0 or more.

    Minus infinity where there is none.
    """
    return size if isinstance(size, int) else sum(_least_term(*term) for term in size.terms)


def _least_term(monomial: Monomial, coefficient: int) -> float:
    if not monomial:
        return coefficient
    low = (
        math.prod(_least_atom(atom) for atom in monomial)
        if all(_least_atom(a) >= 0 for a in monomial)
        else -math.inf
    )
    return coefficient * low if coefficient > 0 and low > -math.inf else -math.inf


def _least_atom(atom: Atom) -> float:
    if isinstance(atom, Symbol):
        return 0
    left, right = least(atom.left), least(atom.right)
    if atom.kind == "max":
        return max(left, right)
    if atom.kind == "min":
        return min(left, right)
    if atom.kind == "floor" and isinstance(atom.right, int) and atom.right > 0:
        return left // atom.right if left > -math.inf else left
    return 0 if left >= 0 and (right > 0 or atom.kind in {"broadcast", "or"}) else -math.inf


def is_at_least(left: Size, right: Size) -> bool:
    """Whether ``left >= right`` for all values of the symbols; False where that is not known."""
    try:
        return least(left - right) >= 0
    except TooLargeError:
        return False


def is_positive(size: Size) -> bool:
    """Whether it is 1 or more for all values of the symbols."""
    return least(size) >= 1


def evaluate(size: Size, values: Mapping[str, int]) -> int:
    """The number that the expression is for these values of its symbols.

    KeyError names a symbol without a value; ZeroDivisionError and ValueError where the values make
    no size.
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
    """Every symbol in it, those inside operations too."""
    if isinstance(size, int):
        return frozenset()
    found: frozenset[Symbol] = frozenset()
    for atom in size.atoms():
        inner = (
            {atom} if isinstance(atom, Symbol) else symbols_of(atom.left) | symbols_of(atom.right)
        )
        found |= inner
    return found
