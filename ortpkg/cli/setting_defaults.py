"""Which options go by the settings, and how a setting's wrong value is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ortpkg.cli.rendering import Output
from ortpkg.cli.settings import Settings, read_settings
from ortpkg.errors import OrtpkgError, UnknownBackendError, UsageError

#: Setting (of a file or the environment) → the commands whose option of that name has it as its
#: default.
COMMANDS_OF: Mapping[str, tuple[str, ...]] = {
    "policy": ("select", "run"),
    "backend": ("select", "run", "cache"),
    "trust": ("select", "run", "bench", "cache"),
    "threads": ("run", "bench"),
}


class OptionDefaults(NamedTuple):
    """Defaults of one command's options.

    Attributes:
        values: option → default, for those that the settings name.
        sources: option → where the default comes from, for those that the command line does not
            give.
    """

    values: Mapping[str, Any]
    sources: Mapping[str, str]

    def located(self, error: OrtpkgError) -> OrtpkgError:
        """``error``, opened by the file or variable in which the wrong value stands.

        Whether there is a backend of some name is known once plug-ins have been asked, which is not
        done here.
        """
        source = self.sources.get("backend")
        if source is None or not isinstance(error, UnknownBackendError):
            return error
        located = UnknownBackendError(f"{source}: {error}", backend=error.backend)
        located.__cause__ = error
        return located


NO_DEFAULTS = OptionDefaults({}, {})


def option_defaults(called: str, words: Sequence[str], output: Output) -> OptionDefaults:
    """What the settings say of the options of the command ``called``.

    Trust that comes from there is said aloud.
    """
    names = [name for name, commands in COMMANDS_OF.items() if called in commands]
    if not names or not {"--help", "-h", "--help-all"}.isdisjoint(words):
        return NO_DEFAULTS
    settings = read_settings()
    values = {name: value for name in names if (value := getattr(settings, name)) is not None}
    given = {word.split("=")[0] for word in words}
    if "policy" in values and "--policy" not in given:
        values["policy"] = checked_policy(settings)
    if values.get("trust") and {"--trust", "--no-trust", "--quiet", "-q"}.isdisjoint(words):
        output.note(f"the package is trusted, as {settings.sources['trust']} says")
    return OptionDefaults(
        values, {name: settings.sources[name] for name in values if f"--{name}" not in given}
    )


def checked_policy(settings: Settings) -> str:
    """The policy that the settings name.

    UsageError, which says where they do, for one that nobody knows.
    """
    from ortpkg.selection.policies import policy_named  # only where a setting names one

    assert settings.policy is not None
    try:
        return policy_named(settings.policy)
    except UsageError as error:
        raise UsageError(f"{settings.sources['policy']}: {error}") from error
