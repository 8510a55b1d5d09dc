"""``python -m tests.scale.kubernetes_check KIND < FILE``: whether a manifest is what KServe takes.

In a process of its own: KServe and tritonclient define the same messages of gRPC, and only one of
them can be loaded.
"""

from __future__ import annotations

import re
import sys
from typing import Any

import kserve.models
import kubernetes.client
import yaml

#: Texts to them; Kubernetes takes more, and says so where it does.
_PLAIN: dict[str, type | tuple[type, ...]] = {
    "str": str,
    "int": int,
    "bool": bool,
    "float": (int, float),
    "object": object,
    "datetime": str,
}


def check(kind: str, value: Any, where: str) -> None:
    """Asserts that ``value`` is of a type of their specifications, with no key that it has not."""
    if (inner := re.fullmatch(r"[lL]ist\[(.*)\]", kind)) is not None:
        assert isinstance(value, list), where
        for number, each in enumerate(value):
            check(inner[1], each, f"{where}[{number}]")
    elif (inner := re.fullmatch(r"[dD]ict[(\[]str, (.*)[)\]]", kind)) is not None:
        assert isinstance(value, dict), where
        for key, each in value.items():
            check(inner[1], each, f"{where}.{key}")
    elif kind in _PLAIN:
        assert isinstance(value, _PLAIN[kind]), f"{where} is no {kind}"
    else:
        model = getattr(kserve.models, kind, None) or getattr(kubernetes.client, kind)
        check_model(model, value, where)


def check_model(model: Any, value: Any, where: str) -> None:
    assert isinstance(value, dict), where
    names = {key: name for name, key in model.attribute_map.items()}
    for key, each in value.items():
        assert key in names, f"{where} has no {key}"
        check(model.openapi_types[names[key]], each, f"{where}.{key}")
    model(**{names[key]: each for key, each in value.items()})  # raises where one is missing


if __name__ == "__main__":
    check(sys.argv[1], yaml.safe_load(sys.stdin), "it")
