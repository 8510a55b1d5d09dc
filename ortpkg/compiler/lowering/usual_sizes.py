"""Compares two formulas of the same symbols for sizes that models usually run with.

A feature map that is halved and doubled again regains its size for images of sizes that the model
supports; for others the model itself fails. A guard checks it in each run.
"""

from __future__ import annotations

from ortpkg.graph.shapes.expressions import Size, evaluate, symbols_of

#: Sizes that can be halved seven times; one of them is then odd.
_USUAL_SIZES = (256, 640, 1024)


def agree_at_usual_sizes(left: Size, right: Size) -> bool:
    """Return True if both are the same number above 1 for usual sizes of every symbol.

    Formulas that share no symbol never are; different symbols have different sizes.
    """
    if not symbols_of(left) & symbols_of(right):
        return False
    symbols = sorted(symbol.name for symbol in symbols_of(left) | symbols_of(right))
    for first in range(len(_USUAL_SIZES)):
        values = {
            name: _USUAL_SIZES[(first + offset) % len(_USUAL_SIZES)]
            for offset, name in enumerate(symbols)
        }
        try:
            numbers = evaluate(left, values), evaluate(right, values)
        except (ArithmeticError, ValueError):
            return False
        if numbers[0] != numbers[1] or numbers[0] <= 1:
            return False
    return True
