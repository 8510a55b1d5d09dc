"""The config entries ``ortpkg.partition_policy`` and ``ortpkg.partition_costs`` (costs of nodes).

The costs are a JSON document, in the entry itself or in a file that it names (docs/guide.md has an
example)::

    {"providers": {"AcmeExecutionProvider": {"seconds_per_operation": 1e-12,
                                             "operators": {"MatMul": 5e-13},
                                             "seconds_per_node": 2e-6, "seconds_per_crossing": 1e-5,
                                             "model_s": 0.004, "memory_nbytes": 8000000000}},
     "transfers": {"Acme:0": {"seconds_per_copy": 1e-5, "seconds_per_byte": 1e-10}}}
"""

from __future__ import annotations

import json
import math
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ortpkg.foundations.ep_names import resolve_ep_name
from ortpkg.foundations.errors import InvalidSessionOptionError, quoted
from ortpkg.foundations.names import did_you_mean
from ortpkg.runtime.engine.partition_costs import PartitionCosts, ProviderCosts, TransferCosts

#: Config entry: policy that assigns nodes to providers, see :data:`PARTITION_POLICIES`.
PARTITION_POLICY_ENTRY = "ortpkg.partition_policy"
#: Config entry: costs of nodes and transfers: a JSON object, or the path of a file with one.
PARTITION_COSTS_ENTRY = "ortpkg.partition_costs"

FIRST_COME = "first-come"
COST = "cost"
PARTITION_POLICIES = (FIRST_COME, COST)

_MOST_BYTES = 1 << 20
_NUMBERS = ("seconds_per_operation", "seconds_per_node", "seconds_per_crossing", "model_s")
_PROVIDER_KEYS = ("operators", *_NUMBERS, "memory_nbytes")
_TRANSFER_KEYS = ("seconds_per_copy", "seconds_per_byte")


def partition_costs(entries: Mapping[str, str]) -> PartitionCosts | None:
    """Return the costs in the config entries; None if first come, first served decides.

    Raises:
        InvalidSessionOptionError: an unknown policy, or costs that cannot be read or make no sense.
    """
    policy = entries.get(PARTITION_POLICY_ENTRY, FIRST_COME)
    if policy not in PARTITION_POLICIES:
        raise InvalidSessionOptionError(
            f"{PARTITION_POLICY_ENTRY} is one of {', '.join(PARTITION_POLICIES)}, not"
            f" {quoted(policy)}",
            key=PARTITION_POLICY_ENTRY,
        )
    text = entries.get(PARTITION_COSTS_ENTRY, "")
    costs = parse_costs(text) if text else PartitionCosts()
    return costs if policy == COST else None


def parse_costs(text: str) -> PartitionCosts:
    """Return the costs in a JSON object, or in the file of this name.

    Raises:
        InvalidSessionOptionError: there are none.
    """
    body = _object(_document(text), "the document", ("providers", "transfers"))
    return PartitionCosts(
        providers={
            resolve_ep_name(name): _provider(value, f"providers/{name}")
            for name, value in _object(body.get("providers", {}), "providers").items()
        },
        transfers={
            name: _transfer(value, f"transfers/{name}")
            for name, value in _object(body.get("transfers", {}), "transfers").items()
        },
    )


def _document(text: str) -> Any:
    content: str | bytes = text
    if not text.lstrip().startswith("{"):
        try:
            # Checked before it is opened: opening a pipe would wait forever.
            if not stat.S_ISREG(Path(text).stat().st_mode):
                raise OSError("it is not a regular file")
            with Path(text).open("rb") as file:
                content = file.read(_MOST_BYTES + 1)
        except (OSError, ValueError) as error:
            raise _wrong(
                f"{quoted(text)} is no JSON object, and no file that can be read: {error}"
            ) from error
        if len(content) > _MOST_BYTES:
            raise _wrong(f"{quoted(text)} has more than {_MOST_BYTES} bytes")
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _wrong(f"not JSON: {error}") from error


def _provider(value: object, where: str) -> ProviderCosts:
    body = _object(value, where, _PROVIDER_KEYS)
    operators = _object(body.get("operators", {}), f"{where}/operators")
    memory = _number(body, "memory_nbytes", where)
    return ProviderCosts(
        operators={
            name: _amount(cost, f"{where}/operators/{name}") for name, cost in operators.items()
        },
        memory_nbytes=None if memory is None else int(memory),
        **{name: _number(body, name, where) for name in _NUMBERS},
    )


def _transfer(value: object, where: str) -> TransferCosts:
    body = _object(value, where, _TRANSFER_KEYS)
    return TransferCosts(
        **{name: _amount(body.get(name), f"{where}/{name}") for name in _TRANSFER_KEYS}
    )


def _number(body: Mapping[str, Any], name: str, where: str) -> float | None:
    return None if body.get(name) is None else _amount(body[name], f"{where}/{name}")


def _amount(value: object, where: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or not 0 <= value <= 1e15:  # type: ignore[arg-type, operator]
        raise _wrong(f"{quoted(where)} is a number from 0 on, not {quoted(json.dumps(value)[:80])}")
    return float(value)  # type: ignore[arg-type]


def _object(value: object, where: str, keys: tuple[str, ...] = ()) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(f"{quoted(where)} is an object, not {quoted(json.dumps(value)[:80])}")
    for key in value:
        if keys and key not in keys:
            raise _wrong(
                f"{quoted(where)} has {quoted(key)}{did_you_mean(key, keys)}; known are"
                f" {', '.join(keys)}"
            )
    return value


def _wrong(message: str) -> InvalidSessionOptionError:
    return InvalidSessionOptionError(
        f"{PARTITION_COSTS_ENTRY}: {message}", key=PARTITION_COSTS_ENTRY
    )
