"""Einsum by numpy's einsum, with narrow floats in float32 and the operator's own checks."""

from __future__ import annotations

import math
import re

import numpy as np

from ortpkg.errors import quoted
from ortpkg.kernels.element_types import NUMBERS, widened
from ortpkg.kernels.kernel_registry import kernel
from ortpkg.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.kernels.polling import poll_run

#: The most multiplications that one call of numpy does.
_MOST_WORK_AT_ONCE = 1 << 28
_MOST_INTERMEDIATE_ELEMENTS = 1 << 20
_EQUATION = re.compile(r"[a-zA-Z.,]*(->[a-zA-Z.]*)?")


def _labelled_sizes(
    terms: list[str], inputs: tuple[Tensor, ...]
) -> tuple[dict[str, int], tuple[int, ...]]:
    """Label → size, and the shape that the ellipses broadcast to.

    ValueError where terms and inputs do not fit.
    """
    sizes: dict[str, int] = {}
    ellipsis: tuple[int, ...] = ()
    for term, x in zip(terms, inputs, strict=True):
        before, dots, after = term.partition("...")
        if len(before) + len(after) > x.ndim or (not dots and len(before) != x.ndim):
            raise ValueError(f"the term {term!r} does not fit an input of shape {x.shape}")
        middle = x.shape[len(before) : x.ndim - len(after)] if dots else ()
        ellipsis = np.broadcast_shapes(ellipsis, middle)
        labelled = zip(
            before + after, (*x.shape[: len(before)], *x.shape[x.ndim - len(after) :]), strict=True
        )
        for label, size in labelled:
            known = sizes.setdefault(label, size)
            if known != size and 1 not in (known, size):
                raise ValueError(f"the label {label!r} stands for axes of size {known} and {size}")
            sizes[label] = max(known, size) if 0 not in (known, size) else 0
    return sizes, ellipsis


def _output_term(terms: list[str]) -> str:
    """Without an arrow: the ellipsis, then the labels that occur once, in alphabetical order."""
    labels = "".join(terms).replace(".", "")
    dots = "..." if any("..." in term for term in terms) else ""
    return dots + "".join(sorted(label for label in set(labels) if labels.count(label) == 1))


@kernel("Einsum", since=(12, 28), types={"T": NUMBERS})
def einsum(info: OpKernelInfo) -> Compute:
    equation = "".join(str(info.attribute("equation")).split())
    if not _EQUATION.fullmatch(equation):
        raise ValueError(f"{quoted(equation)} is no Einstein summation")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    output_term = right if arrow else _output_term(terms)

    def compute(context: OpKernelContext, *inputs: Tensor) -> Tensor:
        if len(terms) != len(inputs):
            raise ValueError(f"the equation names {len(terms)} inputs, but {len(inputs)} are given")
        sizes, ellipsis = _labelled_sizes(terms, inputs)
        before, dots, after = output_term.partition("...")
        if not set(before + after) <= set(sizes):
            raise ValueError(f"the output {output_term!r} has labels that no input has")
        shape = (
            *(sizes[c] for c in before),
            *(ellipsis if dots else ()),
            *(sizes[c] for c in after),
        )
        out = context.output(0, shape, inputs[0].dtype)
        largest = max(out.size, _MOST_INTERMEDIATE_ELEMENTS, *(x.size for x in inputs))
        result = _contracted(terms, [widened(x) for x in inputs], output_term, largest)
        np.copyto(out, result, casting="unsafe")
        return out

    return compute


def _contracted(terms: list[str], inputs: list[Tensor], output: str, largest: int) -> Tensor:
    """The sum of products: terms first sum what is theirs, then parts, so that a run may end."""
    reduced = [_reduced(place, terms, output) for place in range(len(terms))]
    inputs = [
        x if before == after else np.asarray(np.einsum(f"{before}->{after}", x))
        for before, after, x in zip(terms, reduced, inputs, strict=True)
    ]
    sizes, ellipsis = _labelled_sizes(reduced, tuple(inputs))
    work = math.prod(sizes.values()) * math.prod(ellipsis)
    label = max(sizes, key=lambda each: sizes[each], default="")
    if len(inputs) == 2 and work > _MOST_WORK_AT_ONCE and label and sizes[label] > 1:
        return _in_parts(
            reduced,
            inputs,
            output,
            largest,
            label,
            max(sizes[label] * _MOST_WORK_AT_ONCE // work, 1),
        )
    poll_run()
    # A pairwise contraction order lets numpy use matrix products; what it makes on the way stays
    # bounded.
    order = ("greedy", largest) if len(inputs) > 1 else False
    return np.asarray(np.einsum(f"{','.join(reduced)}->{output}", *inputs, optimize=order))


def _reduced(place: int, terms: list[str], output: str) -> str:
    """A term without the labels that nothing else has, and with each of the others once."""
    others = "".join((output, *terms[:place], *terms[place + 1 :]))
    before, dots, after = terms[place].partition("...")
    kept = dict.fromkeys(label for label in before + after if label in others)
    ahead = [label for label in kept if label in before]
    return "".join(ahead) + dots + "".join(label for label in kept if label not in before)


def _in_parts(
    terms: list[str], inputs: list[Tensor], output: str, largest: int, label: str, step: int
) -> Tensor:
    """The contraction, ``step`` of the sizes that ``label`` stands for at a time."""
    size = max(
        x.shape[_axis(term, label, x.ndim)]
        for term, x in zip(terms, inputs, strict=True)
        if label in term
    )
    parts: list[Tensor] = []
    for start in range(0, size, step):
        sliced = [
            x if label not in term else _sliced(x, _axis(term, label, x.ndim), start, step)
            for term, x in zip(terms, inputs, strict=True)
        ]
        part = _contracted(terms, sliced, output, largest)
        if label in output or not parts:
            parts.append(part)
        else:
            parts[0] = parts[0] + part
    return (
        np.concatenate(parts, axis=_axis(output, label, parts[0].ndim))
        if label in output
        else parts[0]
    )


def _axis(term: str, label: str, rank: int) -> int:
    before, _, after = term.partition("...")
    return before.index(label) if label in before else rank - len(after) + after.index(label)


def _sliced(x: Tensor, axis: int, start: int, step: int) -> Tensor:
    """A part of ``x`` along an axis; all of one of size 1, which is broadcast."""
    return x if x.shape[axis] == 1 else x[(slice(None),) * axis + (slice(start, start + step),)]
