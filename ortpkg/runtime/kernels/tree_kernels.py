"""TreeEnsemble, TreeEnsembleRegressor and TreeEnsembleClassifier of ai.onnx.ml."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from ortpkg.foundations.errors import InvalidGraphError, quoted
from ortpkg.foundations.isolation.polling import poll_run
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.runtime.kernels.tree_ensemble import LEAF, MEMBER, Ensemble, aggregated, votes_by_node

_DOMAIN = "ai.onnx.ml"
_MODES = {
    "BRANCH_LEQ": 0,
    "BRANCH_LT": 1,
    "BRANCH_GTE": 2,
    "BRANCH_GT": 3,
    "BRANCH_EQ": 4,
    "BRANCH_NEQ": 5,
    "LEAF": LEAF,
}
_ELEMENTS_AT_ONCE = 1 << 12
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


# --- post-transforms ------------------------------------------------------------------------------


def _logistic(x: Tensor) -> Tensor:
    return np.asarray(1 / (1 + np.exp(-x)))


def _softmax(x: Tensor) -> Tensor:
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _softmax_zero(x: Tensor) -> Tensor:
    """Softmax over the entries that are not zero; zeros stay."""
    powers = np.where(np.abs(x) > 1e-7, np.exp(x - x.max(axis=1, keepdims=True)), 0.0)
    sums = powers.sum(axis=1, keepdims=True)
    return np.where(sums == 0, 0.5, powers / np.where(sums == 0, 1, sums))


def _probit(x: Tensor) -> Tensor:
    normal = NormalDist()
    flat, inverse = x.ravel(), np.empty(x.size)
    for start in range(0, x.size, _ELEMENTS_AT_ONCE):
        poll_run()
        block = slice(start, start + _ELEMENTS_AT_ONCE)
        inverse[block] = [
            normal.inv_cdf(p) if 0 < p < 1 else {0.0: -np.inf, 1.0: np.inf}.get(p, np.nan)
            for p in flat[block].tolist()
        ]
    return inverse.reshape(x.shape)


POST_TRANSFORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "NONE": lambda x: x,
    "SOFTMAX": _softmax,
    "LOGISTIC": _logistic,
    "SOFTMAX_ZERO": _softmax_zero,
    "PROBIT": _probit,
}


def post_transform_of(info: OpKernelInfo) -> str:
    """Return the name of the node's ``post_transform``.

    Raises:
        InvalidGraphError: the name is unknown.
    """
    value = info.attribute("post_transform", "NONE")
    name = (
        list(POST_TRANSFORMS)[value]
        if isinstance(value, int) and 0 <= value < len(POST_TRANSFORMS)
        else value
    )
    if name not in POST_TRANSFORMS:
        raise InvalidGraphError(
            f"{info.node}: no post_transform {quoted(name)}", node_name=info.node.name
        )
    return str(name)


def _aggregate(info: OpKernelInfo) -> str:
    value = info.attribute("aggregate_function", "SUM")
    name = _AGGREGATES[value] if isinstance(value, int) and 0 <= value < len(_AGGREGATES) else value
    if name not in _AGGREGATES:
        raise InvalidGraphError(
            f"{info.node}: no aggregate_function {quoted(name)}", node_name=info.node.name
        )
    return str(name)


# --- reading the trees ----------------------------------------------------------------------------


def _numbers(info: OpKernelInfo, name: str) -> Tensor:
    """Return a list attribute, or its ``_as_tensor`` form in double."""
    tensor = info.attribute(f"{name}_as_tensor")
    if tensor is not None:
        return np.asarray(tensor).ravel()
    return np.array(info.attribute(name) or (), dtype=np.float32)


def _check_lengths(info: OpKernelInfo, first: str, others: Sequence[str]) -> None:
    """Raise InvalidGraphError if a list is not as long as the first one."""
    expected = len(info.attribute(first) or ())
    for name in others:
        length = len(info.attribute(name) or ())
        if length != expected:
            raise InvalidGraphError(
                f"{info.node} has {length} numbers in the attribute '{name}'; {expected} were"
                f" expected, as many as {first} has",
                node_name=info.node.name,
            )


def _old_nodes(info: OpKernelInfo, prefix: str) -> tuple[Tensor, list[Tensor], list[int]]:
    """Return modes, the next nodes on true and on false, and the node of each vote, by position."""
    trees, ids = info.attribute("nodes_treeids") or (), info.attribute("nodes_nodeids") or ()
    names = ("nodeids", "modes", "truenodeids", "falsenodeids")
    _check_lengths(info, "nodes_treeids", [f"nodes_{name}" for name in names])
    _check_lengths(info, f"{prefix}_treeids", [f"{prefix}_nodeids"])
    try:
        index = {key: position for position, key in enumerate(zip(trees, ids, strict=True))}
        modes = np.array(
            [_MODES[mode] for mode in info.attribute("nodes_modes") or ()], dtype=np.int64
        )
        follow = [
            np.array(
                [
                    position if modes[position] == LEAF else index[tree, node]
                    for position, (tree, node) in enumerate(
                        zip(trees, info.attribute(name) or (), strict=True)
                    )
                ],
                dtype=np.int64,
            )
            for name in ("nodes_truenodeids", "nodes_falsenodeids")
        ]
        vote_keys = zip(
            info.attribute(f"{prefix}_treeids") or (),
            info.attribute(f"{prefix}_nodeids") or (),
            strict=True,
        )
        return modes, follow, [index[key] for key in vote_keys]
    except (KeyError, IndexError, ValueError) as error:
        raise InvalidGraphError(
            f"{info.node}: its trees name a node or mode that is not there ({error})",
            node_name=info.node.name,
        ) from error


def _old_ensemble(info: OpKernelInfo, prefix: str, target_count: int) -> Ensemble:
    """Read a TreeEnsembleRegressor's trees (prefix ``target``), or a Classifier's (``class``)."""
    modes, follow, owners = _old_nodes(info, prefix)
    trees = info.attribute("nodes_treeids") or ()
    targets = info.attribute(f"{prefix}_ids") or ()
    start, target, weight = votes_by_node(
        owners, targets, _numbers(info, f"{prefix}_weights"), len(trees)
    )
    missing = info.attribute("nodes_missing_value_tracks_true") or (0,) * len(trees)
    ensemble = Ensemble(
        mode=modes,
        feature=np.where(
            modes == LEAF, 0, np.array(info.attribute("nodes_featureids") or (), dtype=np.int64)
        ),
        threshold=_numbers(info, "nodes_values"),
        on_true=follow[0],
        on_false=follow[1],
        missing_is_true=np.array(missing, dtype=bool),
        members={},
        roots=np.array(
            list({tree: index for index, tree in reversed(list(enumerate(trees)))}.values()),
            dtype=np.int64,
        ),
        vote_start=start,
        vote_target=target,
        vote_weight=weight,
    )
    ensemble.check(target_count)
    return ensemble


def _new_ensemble(info: OpKernelInfo, target_count: int) -> Ensemble:
    """Read the trees of TreeEnsemble: interior nodes first in the pool, then the leaves."""
    modes = np.asarray(info.attribute("nodes_modes")).astype(np.int64)
    inner, weights = len(modes), np.asarray(info.attribute("leaf_weights"))
    leaf_nodes = inner + np.arange(len(weights))
    follow = [
        np.array(info.attribute(f"nodes_{side}nodeids"), dtype=np.int64)
        + inner * np.array(info.attribute(f"nodes_{side}leafs"), dtype=bool)
        for side in ("true", "false")
    ]
    missing = info.attribute("nodes_missing_value_tracks_true") or (0,) * inner
    start, target, weight = votes_by_node(
        leaf_nodes, info.attribute("leaf_targetids"), weights, inner + len(weights)
    )
    roots = np.array(info.attribute("tree_roots"), dtype=np.int64)
    padding = np.zeros(len(weights), dtype=np.int64)
    ensemble = Ensemble(
        mode=np.concatenate([modes, np.full(len(weights), LEAF)]),
        feature=np.concatenate(
            [np.array(info.attribute("nodes_featureids"), dtype=np.int64), padding]
        ),
        threshold=np.concatenate(
            [np.asarray(info.attribute("nodes_splits")), padding.astype(weights.dtype)]
        ),
        on_true=np.concatenate([follow[0], leaf_nodes]),
        on_false=np.concatenate([follow[1], leaf_nodes]),
        missing_is_true=np.concatenate([np.array(missing, dtype=bool), padding.astype(bool)]),
        members={},
        roots=roots,
        vote_start=start,
        vote_target=target,
        vote_weight=weight,
    )
    ensemble.check(target_count)
    ensemble.members.update(_members(info, ensemble))
    return ensemble


def _members(info: OpKernelInfo, ensemble: Ensemble) -> dict[int, Tensor]:
    """Return the value sets of MEMBER nodes: NaN ends each.

    They are in the order of a walk, true branches first.
    """
    listed = np.asarray(info.attribute("membership_values", np.empty(0))).ravel()
    ends = np.nonzero(np.isnan(listed))[0].tolist()
    sets = [
        listed[start:end] for start, end in zip([0, *(end + 1 for end in ends)], ends, strict=False)
    ]
    order = []
    for root in ensemble.roots.tolist():
        visited: set[int] = set()
        pending = [root]
        while pending:
            node = pending.pop()
            if node in visited or ensemble.mode[node] == LEAF:
                continue
            visited.add(node)
            if ensemble.mode[node] == MEMBER:
                order.append(node)
            pending += [int(ensemble.on_false[node]), int(ensemble.on_true[node])]
    if len(order) != len(sets):
        raise ValueError(
            f"{len(order)} nodes ask for membership, but membership_values has {len(sets)} sets"
        )
    return dict(zip(order, sets, strict=True))


# --- kernels --------------------------------------------------------------------------------------


def _rows(x: Tensor) -> Tensor:
    rows = x[None] if x.ndim == 1 else x
    if rows.ndim != 2:
        raise ValueError(f"trees take rows of features (rows, features), not shape {x.shape}")
    return rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float32)


def _output(context: OpKernelContext, index: int, scores: Tensor, dtype: np.dtype[Any]) -> Tensor:
    out = context.output(index, scores.shape, dtype)
    np.copyto(out, scores, casting="unsafe")
    return out


@kernel("TreeEnsembleRegressor", since=(1, 3, 5), domain=_DOMAIN)
def tree_ensemble_regressor(info: OpKernelInfo) -> Compute:
    count = int(info.attribute("n_targets", 1))
    ensemble, aggregate = _old_ensemble(info, "target", count), _aggregate(info)
    base, transform = _numbers(info, "base_values"), POST_TRANSFORMS[post_transform_of(info)]

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        scores = aggregated(ensemble, _rows(x), count, aggregate, context)
        return _output(
            context, 0, transform(scores + base if base.size else scores), np.dtype(np.float32)
        )

    return compute


@kernel("TreeEnsemble", since=(5,), domain=_DOMAIN)
def tree_ensemble(info: OpKernelInfo) -> Compute:
    count = int(info.attribute("n_targets", 1))
    ensemble, aggregate = _new_ensemble(info, count), _aggregate(info)
    transform = POST_TRANSFORMS[post_transform_of(info)]

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        return _output(
            context,
            0,
            transform(aggregated(ensemble, _rows(x), count, aggregate, context)),
            x.dtype,
        )

    return compute


@kernel("TreeEnsembleClassifier", since=(1, 3, 5), domain=_DOMAIN)
def tree_ensemble_classifier(info: OpKernelInfo) -> Compute:
    """Labels and scores.

    Two classes whose votes are all for one of them are decided by a threshold.
    """
    numbers, texts = info.attribute("classlabels_int64s"), info.attribute("classlabels_strings")
    labels: Sequence[Any] = numbers or texts or ()
    count = max(len(labels), 1)
    ensemble = _old_ensemble(info, "class", count)
    base, post = _numbers(info, "base_values"), post_transform_of(info)
    votes = set(ensemble.vote_target.tolist())
    only = votes.pop() if len(votes) == 1 and count <= 2 else None
    all_positive = bool((ensemble.vote_weight >= 0).all())
    names = np.array(labels, dtype=np.int64 if numbers else object)

    def compute(context: OpKernelContext, x: Tensor) -> tuple[Tensor, Tensor]:
        scores = aggregated(ensemble, _rows(x), count, "SUM", context)
        if base.size:
            scores = scores + (base if base.size == count else base[:1])
        if only is None:
            best, scores = scores.argmax(axis=1), POST_TRANSFORMS[post](scores)
        else:
            best, scores = _binary(scores[:, only], all_positive, post)
        chosen = names[best] if count > 1 else best.astype(np.int64)
        return _output(context, 0, chosen, chosen.dtype), _output(
            context, 1, scores, np.dtype(np.float32)
        )

    return compute


def _binary(score: Tensor, all_positive: bool, post: str) -> tuple[Tensor, Tensor]:
    """Return classes and both scores from the score of one: a probability, or a margin around 0.

    Source: ONNX Runtime, ml_common.h (write_scores), which exporters rely on.
    """
    best = (score > (0.5 if all_positive else 0)).astype(np.int64)
    if post == "PROBIT":
        score = _probit(score)
    if post == "LOGISTIC":
        return best, _logistic(np.stack([-score, score], axis=1))
    return best, np.stack([1 - score if all_positive else -score, score], axis=1)
