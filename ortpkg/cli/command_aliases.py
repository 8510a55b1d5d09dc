"""Maps commands of other package managers and model runners to the commands of ortpkg."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ortpkg.foundations.names import did_you_mean

#: Commands of ortpkg that do the same as a command of another tool, the likeliest first.
MEANT_COMMANDS: Mapping[str, tuple[str, ...]] = {
    "ls": ("list",),
    "ps": ("list",),
    "images": ("list",),
    "freeze": ("list", "lock"),
    "rm": ("uninstall", "remove-variant"),
    "rmi": ("uninstall",),
    "del": ("uninstall", "remove-variant"),
    "delete": ("uninstall", "remove-variant"),
    "remove": ("uninstall", "remove-variant"),
    "purge": ("uninstall", "gc"),
    "info": ("show", "inspect"),
    "view": ("show", "inspect"),
    "describe": ("show", "inspect"),
    "tree": ("inspect",),
    "update": ("upgrade",),
    "up": ("upgrade",),
    "add": ("install", "add-variant"),
    "get": ("install", "pull"),
    "i": ("install",),
    "fetch": ("pull",),
    "download": ("pull",),
    "clone": ("pull",),
    "publish": ("push",),
    "upload": ("push",),
    "new": ("init", "create"),
    "build": ("create", "pack"),
    "package": ("create", "pack"),
    "zip": ("pack",),
    "unzip": ("unpack",),
    "extract": ("unpack",),
    "check": ("validate", "verify", "doctor"),
    "lint": ("validate",),
    "test": ("run", "validate"),
    "audit": ("verify",),
    "log": ("history",),
    "undo": ("rollback",),
    "revert": ("rollback",),
    "prune": ("gc",),
    "clean": ("gc", "cache"),
    "autoremove": ("gc",),
    "fix": ("repair",),
    "exec": ("run",),
    "infer": ("run",),
    "predict": ("run",),
    "benchmark": ("bench",),
    "perf": ("bench",),
    "start": ("serve",),
    "config": ("settings",),
    "env": ("doctor", "settings"),
}


def meant_commands(typed: str, commands: Iterable[str]) -> str:
    """Return " (did you mean ...?)" for a command that does not exist, or "".

    A command that has this name in other tools is preferred to one with a similar spelling.
    """
    equivalents = MEANT_COMMANDS.get(typed.lower())
    if equivalents is None:
        return did_you_mean(typed, commands)
    return f" (did you mean {' or '.join(f'ortpkg {name}' for name in equivalents)}?)"
