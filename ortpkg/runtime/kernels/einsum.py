"""Einsum by numpy's einsum, with narrow floats in float32 and the operator's own checks."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import partial

import numpy as np

from ortpkg.foundations.errors import quoted
from ortpkg.foundations.isolation.polling import poll_run
from ortpkg.runtime.kernels.blas_threads import LEAST_SHARED_PRODUCTS, call_held_to_one_thread
from ortpkg.runtime.kernels.element_types import NUMBERS, widened, widened_nbytes
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor

#: Most multiplications that one call of numpy does.
_MOST_WORK_AT_ONCE = 1 << 28
_MOST_INTERMEDIATE_ELEMENTS = 1 << 20
_EQUATION = re.compile(r"[a-zA-Z.,]*(->[a-zA-Z.]*)?")


def _labelled_sizes(
    terms: list[str], inputs: tuple[Tensor, ...]
) -> tuple[dict[str, int], tuple[int, ...]]:
    """Return label → size, and the shape that the ellipses broadcast to.

    Raises:
        ValueError: terms and inputs do not fit each other.
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
            label_size = sizes.setdefault(label, size)
            if label_size != size and 1 not in (label_size, size):
                raise ValueError(
                    f"the label {label!r} stands for axes of size {label_size} and {size}"
                )
            sizes[label] = max(label_size, size) if 0 not in (label_size, size) else 0
    return sizes, ellipsis


def _output_term(terms: list[str]) -> str:
    """Return the output of an equation without an arrow.

    It is the ellipsis, then the labels that occur once, in alphabetical order.
    """
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
        wide_nbytes = widened_nbytes(*inputs)
        context.check_allocation(wide_nbytes)
        contraction = _Contraction(context, largest, wide_nbytes)
        result = contraction.of(terms, [widened(x) for x in inputs], output_term)
        np.copyto(out, result, casting="unsafe")
        return out

    return compute


class _Contraction:
    """One run of the operator; it checks limits before it allocates, and may be cancelled."""

    def __init__(self, context: OpKernelContext, largest: int, held_nbytes: int) -> None:
        """Take the largest size of an intermediate in elements, and the bytes held so far."""
        self._context = context
        self._largest = largest
        #: Bytes of intermediates that are still needed.
        self._held_nbytes = held_nbytes

    def of(self, terms: list[str], inputs: list[Tensor], output: str) -> Tensor:
        """Return the sum of products: first sums within terms, then pairs, or parts of them."""
        reduced = [_reduced(position, terms, output) for position in range(len(terms))]
        inputs = [
            x if before == after else np.asarray(np.einsum(f"{before}->{after}", x))
            for before, after, x in zip(terms, reduced, inputs, strict=True)
        ]
        equation = f"{','.join(reduced)}->{output}"
        if len(inputs) > 2:
            order = ("greedy", self._largest)
            path = np.einsum_path(equation, *inputs, optimize=order)[0][1:]
            if len(path) > 1:
                return self._stepwise(reduced, inputs, output, path)
        sizes, ellipsis = _labelled_sizes(reduced, tuple(inputs))
        work = math.prod(sizes.values()) * math.prod(ellipsis)
        label = max(sizes, key=lambda candidate: sizes[candidate], default="")
        if len(inputs) > 1 and work > _MOST_WORK_AT_ONCE and label and sizes[label] > 1:
            step = max(sizes[label] * _MOST_WORK_AT_ONCE // work, 1)
            return self._in_parts(reduced, inputs, output, label, step)
        poll_run()
        # Two that a library multiplies as matrices are laid out anew for that.
        copied_nbytes = sum(x.nbytes for x in inputs) if len(inputs) == 2 else 0
        made = math.prod(sizes[label] for label in output.replace(".", ""))
        made *= math.prod(ellipsis) if "..." in output else 1
        self._context.check_allocation(
            self._held_nbytes + copied_nbytes + made * inputs[0].itemsize
        )
        is_product = len(inputs) == 2
        product = partial(np.einsum, equation, *inputs, optimize=is_product)
        is_small = is_product and work < LEAST_SHARED_PRODUCTS
        return np.asarray(call_held_to_one_thread(product) if is_small else product())

    def _stepwise(
        self,
        terms: list[str],
        inputs: list[Tensor],
        output: str,
        path: Iterable[tuple[int, ...]],
    ) -> Tensor:
        """Contract in the order of ``path``: positions of the terms that each step replaces."""
        terms, inputs = list(terms), list(inputs)
        held_before = self._held_nbytes
        made: list[Tensor] = []
        for positions in path:
            step_terms = [terms.pop(position) for position in sorted(positions, reverse=True)]
            operands = [inputs.pop(position) for position in sorted(positions, reverse=True)]
            result = self.of(
                step_terms, operands, _joint(step_terms, terms, output) if terms else output
            )
            made = [x for x in made if not any(x is operand for operand in operands)] + [result]
            self._held_nbytes = held_before + sum(x.nbytes for x in made)
            terms.append(_joint(step_terms, terms, output) if terms else output)
            inputs.append(result)
        self._held_nbytes = held_before
        return inputs[0]

    def _in_parts(
        self, terms: list[str], inputs: list[Tensor], output: str, label: str, step: int
    ) -> Tensor:
        """Contract in parts: ``step`` indices of ``label`` at a time."""
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
            part = self.of(terms, sliced, output)
            if label in output or not parts:
                parts.append(part)
            else:
                parts[0] = parts[0] + part
        return (
            np.concatenate(parts, axis=_axis(output, label, parts[0].ndim))
            if label in output
            else parts[0]
        )


def _joint(step_terms: list[str], others: list[str], output: str) -> str:
    """Return the term of a step's result: the labels that ``others`` or the output need."""
    needed = "".join((output, *others))
    dots = "..." if any("..." in term for term in step_terms) else ""
    labels = dict.fromkeys("".join(step_terms).replace(".", ""))
    return dots + "".join(label for label in labels if label in needed)


def _reduced(position: int, terms: list[str], output: str) -> str:
    """Return a term without the labels that only it has, and with each other label once."""
    others = "".join((output, *terms[:position], *terms[position + 1 :]))
    before, dots, after = terms[position].partition("...")
    shared_labels = dict.fromkeys(label for label in before + after if label in others)
    ahead = [label for label in shared_labels if label in before]
    return "".join(ahead) + dots + "".join(label for label in shared_labels if label not in before)


def _axis(term: str, label: str, rank: int) -> int:
    before, _, after = term.partition("...")
    return before.index(label) if label in before else rank - len(after) + after.index(label)


def _sliced(x: Tensor, axis: int, start: int, step: int) -> Tensor:
    """Return a part of ``x`` along an axis; all of an axis of size 1, which is broadcast."""
    return x if x.shape[axis] == 1 else x[(slice(None),) * axis + (slice(start, start + step),)]
