"""Activations that RNN, GRU and LSTM nodes name, as elements over ``Made``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.lowering.elementwise_lowering import ACTIVATIONS, Formula
from ortpkg.compiler.lowering.lowering_scope import NotLoweredError, attribute, number
from ortpkg.compiler.tensor_ir.elements import Call, Element, Function, Made
from ortpkg.foundations.errors import quoted
from ortpkg.graph.graph import Node

_F = Function


def _scaled(x: Element, factor: float) -> Element:
    return Call(_F.MUL, (x, number(factor, Scalar.F32)))


def _affine(x: Element, alpha: float, beta: float) -> Element:
    return Call(_F.ADD, (_scaled(x, alpha), number(beta, Scalar.F32)))


def _scaled_tanh(x: Element, alpha: float, beta: float) -> Element:
    return _scaled(Call(_F.TANH, (_scaled(x, beta),)), alpha)


#: Lower-case name → formula, and the defaults of alpha and beta, None if it does not have them.
_FORMULAS: Mapping[str, tuple[Formula, float | None, float | None]] = {
    "sigmoid": (lambda x, _, __: Call(_F.SIGMOID, (x,)), None, None),
    "tanh": (lambda x, _, __: Call(_F.TANH, (x,)), None, None),
    "relu": (lambda x, _, __: Call(_F.MAX, (x, number(0.0, Scalar.F32))), None, None),
    "softsign": (ACTIVATIONS["Softsign"][0], None, None),
    "softplus": (ACTIVATIONS["Softplus"][0], None, None),
    "leakyrelu": (ACTIVATIONS["LeakyRelu"][0], 0.01, None),
    "thresholdedrelu": (ACTIVATIONS["ThresholdedRelu"][0], 1.0, None),
    "elu": (ACTIVATIONS["Elu"][0], 1.0, None),
    "hardsigmoid": (ACTIVATIONS["HardSigmoid"][0], 0.2, 0.5),
    "affine": (_affine, 1.0, 0.0),
    "scaledtanh": (_scaled_tanh, 1.0, 1.0),
}


def gate_activations(
    node: Node, defaults: Sequence[str], directions: int, *, clipped: int
) -> tuple[Element, ...]:
    """Return the activations that all directions share, as many as ``defaults``.

    Alphas and betas are consumed in order, by the functions that have such a parameter.

    Args:
        node: the recurrent node.
        defaults: names of the activations if the node names none.
        directions: number of directions.
        clipped: number of leading activations whose operand the attribute ``clip`` bounds.

    Raises:
        NotLoweredError: if a name is unknown, or directions differ.
    """
    raw_names = attribute(node, "activations", ())
    names = [raw_name.decode(errors="replace") for raw_name in raw_names] or [
        *defaults
    ] * directions
    if len(names) != len(defaults) * directions:
        raise NotLoweredError(f"it names {len(names)} activations, not {len(defaults)} for each"
                              f" of {directions} directions")  # fmt: skip
    alphas = iter(attribute(node, "activation_alpha", ()))
    betas = iter(attribute(node, "activation_beta", ()))
    clip = attribute(node, "clip", None)
    made = [
        _activation(name, alphas, betas, clip if index % len(defaults) < clipped else None)
        for index, name in enumerate(names)
    ]
    shared = made[: len(defaults)]
    if made != shared * directions:
        raise NotLoweredError("its directions have different activations")
    return tuple(shared)


def _activation(
    name: str, alphas: Iterator[float], betas: Iterator[float], clip: float | None
) -> Element:
    entry = _FORMULAS.get(name.lower())
    if entry is None:
        raise NotLoweredError(f"there is no recurrent activation {quoted(name)}")
    formula, alpha, beta = entry
    operand: Element = Made(Scalar.F32)
    if clip is not None:
        bounded = Call(_F.MAX, (operand, number(-float(clip), Scalar.F32)))
        operand = Call(_F.MIN, (bounded, number(float(clip), Scalar.F32)))
    return formula(
        operand,
        0.0 if alpha is None else float(next(alphas, alpha)),
        0.0 if beta is None else float(next(betas, beta)),
    )
