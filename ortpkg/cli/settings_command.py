"""``ortpkg settings``: shows the defaults that apply here, and their sources."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import Any

from ortpkg.cli.app import TRACEBACK_VARIABLE
from ortpkg.cli.rendering import Output
from ortpkg.cli.setting_defaults import COMMANDS_OF, OptionDefaults, checked_policy
from ortpkg.cli.settings import (
    Settings,
    project_config_file,
    read_settings,
    setting_variable,
)
from ortpkg.cli.table_layout import Column
from ortpkg.distribution.project.configuration_files import user_config_file
from ortpkg.foundations.errors import ExitCode, UnknownBackendError, UsageError, quoted
from ortpkg.foundations.host.directories import (
    CONFIG_ENVIRONMENT,
    STATE_ENVIRONMENT,
    STORE_ENVIRONMENT,
    cache_directory,
    state_directory,
    store_directory,
)
from ortpkg.foundations.isolation.backend_probe import (
    RETRY_VARIABLE,
    TIMEOUT_VARIABLE,
    probe_timeout_s,
)
from ortpkg.foundations.isolation.process import PYTHON_VARIABLE
from ortpkg.foundations.names import did_you_mean
from ortpkg.foundations.variables import flag_variable
from ortpkg.package.trust.policy_place import POLICY_ENVIRONMENT
from ortpkg.runtime.providers.ep_discovery.ep_libraries import EMULATED_DEVICES_VARIABLE
from ortpkg.runtime.providers.ep_registry import ep_known_here
from ortpkg.runtime.providers.machine_offer import verify_emulated_names
from ortpkg.runtime.providers.plugins import installed_plugins
from ortpkg.runtime.providers.user_ep_libraries import verify_entry
from ortpkg.selection.matching.request import backend_named

#: A setting that is not an option of a command.
_EP_LIBRARIES = "ep_libraries"
#: Default value of each setting, and its name for people.
_DEFAULTS: Mapping[str, tuple[str | bool | None, str]] = {
    "policy": ("default", "default"),
    "backend": ("auto", "auto"),
    "trust": (False, "no"),
    "threads": (None, "one per CPU"),
    _EP_LIBRARIES: (None, "none"),
}
#: Every setting, with the commands whose option has it as its default.
_SHOWN: Mapping[str, tuple[str, ...]] = {**COMMANDS_OF, _EP_LIBRARIES: ()}
_PROVIDERS_VARIABLE = "ORTPKG_PROVIDERS"
_CREDENTIALS_VARIABLE = "ORTPKG_MACHINE_CREDENTIALS"
#: Variables of ortpkg that are not settings.
_OTHER_VARIABLES: tuple[str, ...] = (
    *(
        "ORTPKG_CACHE_DIR",
        STATE_ENVIRONMENT,
        STORE_ENVIRONMENT,
        CONFIG_ENVIRONMENT,
        PYTHON_VARIABLE,
        _PROVIDERS_VARIABLE,
    ),
    POLICY_ENVIRONMENT,
    _CREDENTIALS_VARIABLE,
    *(EMULATED_DEVICES_VARIABLE, TIMEOUT_VARIABLE, RETRY_VARIABLE, TRACEBACK_VARIABLE),
)


def command(output: Output) -> int:
    """Show the settings that hold here and their origins; files, folders, variables that count.

    Exit code 2 for a value that names nothing, with the file or the variable that says it.
    """
    settings = read_settings()
    _verify(settings)
    variables = {name: value for name in _OTHER_VARIABLES if (value := os.environ.get(name))}
    if output.is_json:
        rows = [_as_json(name, settings) for name in _SHOWN]
        output.json("settings", {"settings": rows, "places": _paths(), "variables": variables})
    else:
        _print(settings, variables, output)
    own_names = (*_OTHER_VARIABLES, *(setting_variable(name) for name in _SHOWN))
    for name in sorted(
        name for name in os.environ if name.startswith("ORTPKG_") and name not in own_names
    ):
        output.warning(
            f"the environment has {name}, which says nothing to ortpkg"
            f"{did_you_mean(name, own_names)}"
        )
    return ExitCode.DONE


def _verify(settings: Settings) -> None:
    """Raise UsageError for a valid value that names something nonexistent."""
    if settings.policy is not None:
        checked_policy(settings)
    for entry in settings.ep_libraries or ():
        verify_entry(entry, settings.sources[_EP_LIBRARIES])
    if (
        settings.backend not in (None, "auto") and not installed_plugins()
    ):  # plug-ins would have to be asked for their names
        try:
            backend_named(settings.backend or "", ())
        except UnknownBackendError as error:
            raise OptionDefaults({}, settings.sources).located(error) from error
    _verify_variables()


def _verify_variables() -> None:
    """Raise UsageError for the first variable of ortpkg with an invalid value."""
    probe_timeout_s()
    for name in (RETRY_VARIABLE, TRACEBACK_VARIABLE, _CREDENTIALS_VARIABLE):
        flag_variable(name)
    for name in ("ORTPKG_CACHE_DIR", STATE_ENVIRONMENT, STORE_ENVIRONMENT):
        folder = os.environ.get(name)
        if folder and os.path.lexists(folder) and not os.path.isdir(folder):  # noqa: PTH112 - Path.is_dir may raise
            raise UsageError(f"{name} is {quoted(folder)}; the path of a folder was expected")
    policy = os.environ.get(POLICY_ENVIRONMENT)
    if policy and not os.path.isfile(policy):  # noqa: PTH113 - as above
        raise UsageError(
            f"{POLICY_ENVIRONMENT} is {quoted(policy)}; the file of a trust policy was expected"
        )
    python = os.environ.get(PYTHON_VARIABLE)
    if python and shutil.which(python) is None:
        raise UsageError(
            f"{PYTHON_VARIABLE} is {quoted(python)}; a Python interpreter was expected"
        )
    if os.environ.get(_PROVIDERS_VARIABLE):
        from ortpkg.runtime.session.default_providers import (
            configured_ep_names,  # numpy and onnx: only where somebody says it
        )

        configured_ep_names()
    verify_emulated_names()
    for ep in filter(None, map(str.strip, os.environ.get(_PROVIDERS_VARIABLE, "").split(","))):
        try:
            ep_known_here(ep)
        except UsageError as error:
            raise UsageError(f"{_PROVIDERS_VARIABLE}: {error}") from error


def _as_json(name: str, settings: Settings) -> dict[str, Any]:
    value = getattr(settings, name)
    return {
        "name": name,
        "value": _DEFAULTS[name][0]
        if value is None
        else value
        if isinstance(value, bool | int)
        else list(value)
        if isinstance(value, tuple)
        else str(value),
        "source": settings.sources.get(name),
        "commands": list(_SHOWN[name]),
    }


def _paths() -> dict[str, str | None]:
    """Return the paths of files and folders, which need not exist.

    The project's file is one of them only if it exists.
    """
    project = project_config_file()
    return {
        "project_file": None if project is None else str(project),
        "user_file": str(user_config_file()),
        "cache_directory": str(cache_directory()),
        "state_directory": state_directory(),
        "store_directory": str(store_directory()),
    }


def _print(settings: Settings, variables: Mapping[str, str], output: Output) -> None:
    columns = (
        Column("setting"),
        Column("value"),
        Column("from", wraps=16),
        Column("default of", drops=1, wraps=16),
    )
    output.table(columns, [_row(name, settings) for name in _SHOWN], title="Settings")
    output.line()
    paths = _paths()
    rows = [
        ("the project's file", paths["project_file"] or "none here or above"),
        (
            "your own file",
            f"{paths['user_file']}{'' if user_config_file().is_file() else ' (not there)'}",
        ),
        ("caches", paths["cache_directory"]),
        ("records", paths["state_directory"]),
        ("installed packages", paths["store_directory"]),
    ]
    output.table((Column("place"), Column("path", wraps=24)), rows, title="Places")
    if variables:
        output.line()
        output.table(
            (Column("variable"), Column("value", wraps=24)),
            list(variables.items()),
            title="Environment",
        )


def _row(name: str, settings: Settings) -> tuple[str, str, str, str]:
    value = getattr(settings, name)
    shown = (
        _DEFAULTS[name][1]
        if value is None
        else ("no", "yes")[value]
        if isinstance(value, bool)
        else ", ".join(value)
        if isinstance(value, tuple)
        else str(value)
    )
    commands = ", ".join(_SHOWN[name])
    options = f"--{name} of {commands}" if commands else "every command that chooses or runs"
    return name, shown, settings.sources.get(name, "default"), options
