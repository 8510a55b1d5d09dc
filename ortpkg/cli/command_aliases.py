"""Names of commands in other package managers and model runners, and what they are called here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ortpkg.names import did_you_mean

#: What people type → the commands that do it here, the likeliest first.
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


def meant_commands(word: str, commands: Iterable[str]) -> str:
    """Return what to put behind a command that does not exist: " (did you mean ...?)", or "".

    Another tool's name for a command comes before one that is spelled alike.
    """
    meant = MEANT_COMMANDS.get(word.lower())
    if meant is None:
        return did_you_mean(word, commands)
    return f" (did you mean {' or '.join(f'ortpkg {name}' for name in meant)}?)"
