"""Options whose defaults come from settings, and errors about a setting's wrong value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ortpkg.cli.rendering import Output
from ortpkg.cli.settings import Settings, read_settings
from ortpkg.foundations.errors import OrtpkgError, UnknownBackendError, UsageError

#: Commands with an option of that name, whose default is the setting of a file or the environment.
COMMANDS_OF: Mapping[str, tuple[str, ...]] = {
    "policy": ("select", "run"),
    "backend": ("select", "run", "cache"),
    "trust": ("select", "run", "bench", "cache"),
    "threads": ("run", "bench"),
}


class OptionDefaults(NamedTuple):
    """Defaults of one command's options.

    Attributes:
        values: Default by option, for those that the settings name.
        sources: Source of the default by option, for those that the command line does not give.
    """

    values: Mapping[str, Any]
    sources: Mapping[str, str]

    def located(self, error: OrtpkgError) -> OrtpkgError:
        """Return ``error`` with the file or variable of the wrong value in front.

        An unknown backend is detected only when plug-ins have been asked, which does not happen
        here.
        """
        source = self.sources.get("backend")
        if source is None or not isinstance(error, UnknownBackendError):
            return error
        located = UnknownBackendError(f"{source}: {error}", backend=error.backend)
        located.__cause__ = error
        return located


NO_DEFAULTS = OptionDefaults({}, {})


def option_defaults(command_name: str, words: Sequence[str], output: Output) -> OptionDefaults:
    """Return the defaults of a command's options from the settings.

    If trust comes from there, that is printed.
    """
    names = [name for name, commands in COMMANDS_OF.items() if command_name in commands]
    if not names or not {"--help", "-h", "--help-all"}.isdisjoint(words):
        return NO_DEFAULTS
    settings = read_settings()
    values = {name: value for name in names if (value := getattr(settings, name)) is not None}
    given_flags = {word.split("=")[0] for word in words}
    if "policy" in values and "--policy" not in given_flags:
        values["policy"] = checked_policy(settings)
    if values.get("trust") and {"--trust", "--no-trust", "--quiet", "-q"}.isdisjoint(words):
        output.note(f"the package is trusted, as {settings.sources['trust']} says")
    return OptionDefaults(
        values, {name: settings.sources[name] for name in values if f"--{name}" not in given_flags}
    )


def checked_policy(settings: Settings) -> str:
    """Return the policy of the settings.

    Raises:
        UsageError: The policy is unknown; the message names the source.
    """
    from ortpkg.machine.policies import policy_named  # only where a setting names one

    assert settings.policy is not None
    try:
        return policy_named(settings.policy)
    except UsageError as error:
        raise UsageError(f"{settings.sources['policy']}: {error}") from error
