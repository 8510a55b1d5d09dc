"""Child's side of ``child``: calls one function and writes its result.

Foreign libraries print, also from native code. So standard output is redirected to standard error
first, and the result goes through a private copy of the descriptor.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

from ortpkg.foundations.isolation.orphan import end_with_parent


def main() -> None:
    """Call "module:function" of the command line with the JSON arguments of stdin; write JSON."""
    channel = os.dup(1)
    os.dup2(2, 1)
    end_with_parent()
    module_name, _, function_name = sys.argv[-1].partition(":")
    arguments = json.load(sys.stdin)
    reply: dict[str, Any]
    try:
        reply = {"value": getattr(importlib.import_module(module_name), function_name)(**arguments)}
    except Exception as error:  # noqa: BLE001 - whatever foreign code raises is the answer
        reply = {"error": f"{type(error).__name__}: {error}"}
    with os.fdopen(channel, "w", encoding="utf-8") as file:
        json.dump(reply, file)
    # A native library may hang or crash while the interpreter shuts down; the answer has been sent.
    os._exit(0)
