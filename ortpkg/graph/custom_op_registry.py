"""Custom operators with kernels in Python, registered once per process.

    @ortpkg.custom_op("acme.audio", "Gain", inputs={"x": "T"}, outputs={"y": "T"}, types={"T":
    ("float", "double")},
                      attributes={"gain": 1.0}, output_shapes=lambda x, gain: [x])
    def gain(x, *, gain):
        return x * np.asarray(gain, x.dtype)

    ortpkg.register_custom_ops([gain])

The declaration becomes an operator definition of ONNX, so nodes are held against it like those of
ONNX's own operators: numbers of inputs and outputs, types, attributes, shapes.
docs/custom_operators.md walks through it.

A distribution brings operators by the entry-point group ``ortpkg.custom_ops``: the name is the
domain, the object a list of operators. It is imported only where a model has a node of that domain.
Imports neither numpy nor onnx.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.graph.custom_op import CustomOp

ENTRY_POINT_GROUP = "ortpkg.custom_ops"
#: Domains of ONNX and onnxruntime, in which nobody else may define operators.
_RESERVED_DOMAINS = ("", "ai.onnx", "com.microsoft", "com.ms", "org.pytorch.aten")

_lock = threading.RLock()
#: (domain, op_type) → version → operator.
_registered: dict[tuple[str, str], dict[int, CustomOp]] = {}
#: Domains for which installed distributions were searched.
_searched_domains: set[str] = set()


def register_custom_ops(operators: Iterable[CustomOp]) -> None:
    """Register operators for all sessions that are made from now on in this process.

    Either all of them are registered or none.

    Raises:
        UsageError: a declaration makes no sense, a domain is ONNX's or onnxruntime's, or an
            operator is registered already with another kernel.
    """
    from ortpkg.graph.custom_op_schema import (  # onnx
        definition_of,
        forget_definition,
        publish_definition,
    )

    with _lock:
        wanted = [operator for operator in operators if not _is_registered(operator)]
        definitions = [definition_of(operator) for operator in wanted]
        keys = [(operator.domain, operator.op_type, operator.version) for operator in wanted]
        for operator, key in zip(wanted, keys, strict=True):
            _check_free(operator, is_twice=keys.count(key) > 1)
        published: list[CustomOp] = []
        try:
            for operator, definition in zip(wanted, definitions, strict=True):
                publish_definition(definition)
                published.append(operator)
        except BaseException:
            for operator in published:
                forget_definition(operator)
            raise
        for operator in wanted:
            _registered.setdefault((operator.domain, operator.op_type), {})[operator.version] = (
                operator
            )


def unregister_custom_ops(domain: str) -> None:
    """Forget all operators of a domain; sessions that have them keep them.

    Raises:
        UsageError: there are none.
    """
    from ortpkg.graph.custom_op_schema import (
        forget_definition,  # onnx: only where some were registered
    )

    with _lock:
        keys = [key for key in _registered if key[0] == domain]
        if not keys:
            raise UsageError(f"no operators of domain {quoted(domain)} are registered")
        for key in keys:
            for operator in _registered.pop(key).values():
                forget_definition(operator)


def find_custom_op(domain: str, op_type: str, version: int) -> CustomOp | None:
    """Return the registered operator with that version of its definition; None if there is none."""
    return _registered.get((domain, op_type), {}).get(version)


def has_custom_op(domain: str, op_type: str) -> bool:
    """Return True if an operator is registered, or a distribution (then imported) brings it."""
    if is_custom_domain(domain):
        load_installed_ops(domain)
    return (domain, op_type) in _registered


def is_custom_domain(domain: str) -> bool:
    """Return True if ``domain`` is neither ONNX's nor onnxruntime's."""
    return not any(
        domain == reserved or (reserved and domain.startswith(f"{reserved}."))
        for reserved in _RESERVED_DOMAINS
    )


def load_installed_ops(domain: str) -> bool:
    """Register the operators that installed distributions bring for ``domain``.

    Returns:
        True if this call registered any.

    Raises:
        UsageError: an entry point cannot be loaded; the message names its object.
    """
    with _lock:
        if domain in _searched_domains:
            return False
        from importlib.metadata import (
            entry_points,  # 15 ms, where a model has operators that nobody knows
        )

        entry_points_of_domain = sorted(
            entry_points(group=ENTRY_POINT_GROUP, name=domain), key=lambda point: point.value
        )
        for entry_point in entry_points_of_domain:
            try:
                operators = list(entry_point.load())
            except Exception as error:
                target = quoted(entry_point.value)
                raise UsageError(
                    f"operators of {target} cannot be loaded: {quoted(error)}"
                ) from error
            register_custom_ops(operators)
        _searched_domains.add(domain)
        return bool(entry_points_of_domain)


def _is_registered(operator: object) -> bool:
    if not isinstance(operator, CustomOp):
        raise UsageError(
            f"register_custom_ops takes operators made by custom_op, not {quoted(operator)}"
        )
    return find_custom_op(operator.domain, operator.op_type, operator.version) is operator


def _check_free(operator: CustomOp, *, is_twice: bool) -> None:
    name = f"{operator.domain}.{operator.op_type}"
    if not is_custom_domain(operator.domain):
        raise UsageError(
            f"operator {quoted(name)}: its domain is ONNX's or onnxruntime's; take one of your own"
        )
    if is_twice or find_custom_op(operator.domain, operator.op_type, operator.version) is not None:
        raise UsageError(
            f"operator {quoted(name)} of version {operator.version} is registered already"
        )
