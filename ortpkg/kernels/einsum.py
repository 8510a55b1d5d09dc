"""Einsum by numpy's einsum, with narrow floats in float32 and the operator's own checks."""

from __future__ import annotations

import re

import numpy as np

from ortpkg.errors import quoted
from ortpkg.kernels.element_types import NUMBERS, widened
from ortpkg.kernels.kernel_registry import kernel
from ortpkg.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor

_MOST_INTERMEDIATE_ELEMENTS = 1 << 20
_EQUATION = re.compile(r"[a-zA-Z.,]*(->[a-zA-Z.]*)?")


def _labelled_sizes(terms: list[str], inputs: tuple[Tensor, ...]) -> tuple[dict[str, int], tuple[int, ...]]:
    """Label → size, and the shape that the ellipses broadcast to. ValueError where terms and inputs do not fit."""
    sizes: dict[str, int] = {}
    ellipsis: tuple[int, ...] = ()
    for term, x in zip(terms, inputs, strict=True):
        before, dots, after = term.partition("...")
        if len(before) + len(after) > x.ndim or (not dots and len(before) != x.ndim):
            raise ValueError(f"the term {term!r} does not fit an input of shape {x.shape}")
        middle = x.shape[len(before) : x.ndim - len(after)] if dots else ()
        ellipsis = np.broadcast_shapes(ellipsis, middle)
        labelled = zip(before + after, (*x.shape[: len(before)], *x.shape[x.ndim - len(after) :]), strict=True)
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
        shape = (*(sizes[c] for c in before), *(ellipsis if dots else ()), *(sizes[c] for c in after))
        out = context.output(0, shape, inputs[0].dtype)
        # A pairwise contraction order lets numpy use matrix products; what it makes on the way stays bounded.
        largest = max(out.size, _MOST_INTERMEDIATE_ELEMENTS, *(x.size for x in inputs))
        order = ("greedy", largest) if len(inputs) > 1 else False
        result = np.einsum(f"{left}->{output_term}", *(widened(x) for x in inputs), optimize=order)
        np.copyto(out, result, casting="unsafe")
        return out

    return compute
