"""Ensembles of decision trees as arrays: all rows walk all trees at once, one level per step.

The walk ends after as many steps as there are nodes: a model whose nodes form a cycle is an error,
not an endless loop. The kernels are in :mod:`ortpkg.runtime.kernels.tree_kernels`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ortpkg.foundations.isolation.polling import poll_run
from ortpkg.runtime.kernels.op_kernel import OpKernelContext, Tensor

LEAF = -1
MEMBER = 6
#: Numbers of modes in TreeEnsemble (ai.onnx.ml 5).
_COMPARISONS: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    np.less_equal,
    np.less,
    np.greater_equal,
    np.greater,
    np.equal,
    np.not_equal,
)
#: Arrays made from scores before they are an output: with base values, and transformed in steps.
_SCORE_COPIES = 4
#: Number of steps from node to node between two checks if the run is to end.
_MOST_WALKED = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Ensemble:
    """Trees in one pool of nodes, and the votes of their leaves.

    Attributes:
        mode: per node: a comparison's number, MEMBER, or LEAF.
        feature, threshold: operands of a node's comparison.
        on_true, on_false: the nodes that follow; for a leaf, itself.
        missing_is_true: result of a comparison with NaN.
        members: per node with MEMBER, the values that it accepts.
        roots: one node per tree.
        vote_start: votes of node i are [vote_start[i], vote_start[i + 1]).
        vote_target, vote_weight: per vote.
    """

    mode: Tensor
    feature: Tensor
    threshold: Tensor
    on_true: Tensor
    on_false: Tensor
    missing_is_true: Tensor
    members: dict[int, Tensor]
    roots: Tensor
    vote_start: Tensor
    vote_target: Tensor
    vote_weight: Tensor

    def check(self, target_count: int) -> None:
        """Raise ValueError if an index leads out of the pool, or a vote has an unknown target."""
        count = len(self.mode)
        columns = (self.feature, self.threshold, self.on_true, self.on_false, self.missing_is_true)
        if any(len(column) != count for column in columns):
            raise ValueError("the lists that describe the trees' nodes differ in length")
        if not len(self.roots):
            raise ValueError("the ensemble has no tree")
        for name, indices, most in (
            ("node", self.on_true, count),
            ("node", self.on_false, count),
            ("root", self.roots, count),
            ("target", self.vote_target, target_count),
        ):
            if len(indices) and (indices.min() < 0 or indices.max() >= most):
                raise ValueError(f"a tree names {name} {int(indices.max())}, but there are {most}")
        if len(self.feature) and self.feature.min() < 0:
            raise ValueError(f"a tree names feature {int(self.feature.min())}")


def votes_by_node(
    nodes: Sequence[int] | Tensor, targets: Sequence[int] | Tensor, weights: Tensor, count: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (vote_start, vote_target, vote_weight) from votes in any order.

    Raises:
        ValueError: the lists do not fit.
    """
    owner = np.asarray(nodes, dtype=np.int64)
    if not len(owner) == len(targets) == len(weights):
        raise ValueError("the lists that describe the leaves' votes differ in length")
    if len(owner) and (owner.min() < 0 or owner.max() >= count):
        raise ValueError(f"a vote belongs to node {int(owner.max())}, but there are {count}")
    order = np.argsort(owner, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=count))])
    return (
        start,
        np.asarray(targets, dtype=np.int64)[order],
        np.asarray(weights, dtype=np.float64)[order],
    )


def leaves(ensemble: Ensemble, x: Tensor, context: OpKernelContext) -> Tensor:
    """Return the leaf that each row of ``x`` reaches in each tree: (rows, trees) node indices."""
    walking = ensemble.mode != LEAF
    if walking.any() and ensemble.feature[walking].max() >= x.shape[1]:
        raise ValueError(
            f"the trees look at feature {int(ensemble.feature[walking].max())} of rows of"
            f" {x.shape[1]}"
        )
    nodes = np.repeat(ensemble.roots[None], len(x), axis=0)
    for _ in range(len(ensemble.mode) + 1):
        context.check_cancelled()
        rows, trees = np.nonzero(walking[nodes])
        if not rows.size:
            return nodes
        at = nodes[rows, trees]
        nodes[rows, trees] = np.where(
            _decisions(ensemble, at, x[rows, ensemble.feature[at]]), *_branches(ensemble, at)
        )
    raise ValueError("the nodes of a tree form a cycle")


def _branches(ensemble: Ensemble, nodes: Tensor) -> tuple[Tensor, Tensor]:
    return ensemble.on_true[nodes], ensemble.on_false[nodes]


def _decisions(ensemble: Ensemble, nodes: Tensor, values: Tensor) -> Tensor:
    thresholds, modes = ensemble.threshold[nodes], ensemble.mode[nodes]
    decisions = np.isnan(values) & ensemble.missing_is_true[nodes]
    for mode, compare in enumerate(_COMPARISONS):
        chosen = modes == mode
        if chosen.any():
            decisions[chosen] |= compare(values[chosen], thresholds[chosen])
    asks_members = modes == MEMBER
    for node in np.unique(nodes[asks_members]).tolist():
        poll_run()
        chosen = nodes == node
        decisions[chosen] |= np.isin(values[chosen], ensemble.members[node])
    return np.asarray(decisions)


def aggregated(
    ensemble: Ensemble, x: Tensor, target_count: int, aggregate: str, context: OpKernelContext
) -> Tensor:
    """Return the votes of all trees for each row and target, in float64; 0 without a vote.

    ``aggregate`` is SUM, AVERAGE, MIN or MAX.
    """
    context.check_allocation(_SCORE_COPIES * len(x) * target_count * np.dtype(np.float64).itemsize)
    result = np.zeros((len(x), target_count))
    step = max(_MOST_WALKED // len(ensemble.roots), 1)
    for first in range(0, len(x), step):
        part = slice(first, min(first + step, len(x)))
        _aggregate_into(result[part], ensemble, leaves(ensemble, x[part], context), aggregate)
    if aggregate == "AVERAGE":
        result /= len(ensemble.roots)
    return result


def _aggregate_into(result: Tensor, ensemble: Ensemble, reached: Tensor, aggregate: str) -> None:
    starts = ensemble.vote_start[reached.ravel()]
    counts = ensemble.vote_start[reached.ravel() + 1] - starts
    rows = np.repeat(np.repeat(np.arange(len(reached)), reached.shape[1]), counts)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    votes = np.repeat(starts, counts) + within
    where = (rows, ensemble.vote_target[votes])
    weights = ensemble.vote_weight[votes]
    if aggregate in ("MIN", "MAX"):
        pick, initial = (np.minimum, np.inf) if aggregate == "MIN" else (np.maximum, -np.inf)
        result[where] = initial
        pick.at(result, where, weights)
    else:
        np.add.at(result, where, weights)
