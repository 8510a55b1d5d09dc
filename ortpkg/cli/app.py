"""Command line application: a literal table of commands, of which only the called one is loaded.

A typer application with many commands takes about 100 ms before it does anything. So ``ortpkg
select`` builds one with only the command ``select``, and completion knows just the names and
summaries of the others.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from ortpkg.cli import interrupts, streams
from ortpkg.cli.command_parameters import add_common_flags, with_single_options
from ortpkg.cli.completion import words_to_complete
from ortpkg.cli.help import SUMMARIES, print_help
from ortpkg.cli.package_argument import resolved_packages
from ortpkg.cli.parameters import NoColorOption, QuietOption
from ortpkg.cli.rendering import Output, OutputError, configure, print_error, reset
from ortpkg.cli.setting_defaults import NO_DEFAULTS, OptionDefaults, option_defaults
from ortpkg.foundations.errors import (
    ExitCode,
    OrtpkgError,
    PackageError,
    ResultUnreadableError,
    UsageError,
    VerifyExitCode,
    quoted,
)
from ortpkg.foundations.storage.planned_files import RehearsalEnd
from ortpkg.foundations.variables import yes_or_no

#: Module of each command; its function ``command`` runs it. The order is that of ``ortpkg --help``.
COMMANDS: dict[str, str] = {
    "create": "ortpkg.cli.create",
    "init": "ortpkg.cli.init",
    "add-variant": "ortpkg.cli.add_variant",
    "remove-variant": "ortpkg.cli.remove_variant",
    "edit": "ortpkg.cli.edit",
    "samples": "ortpkg.cli.samples",
    "dedup": "ortpkg.cli.dedup",
    "diff": "ortpkg.cli.diff",
    "inspect": "ortpkg.cli.inspect",
    "validate": "ortpkg.cli.validate",
    "explain": "ortpkg.cli.explain",
    "verify": "ortpkg.cli.verify",
    "pack": "ortpkg.cli.pack",
    "unpack": "ortpkg.cli.unpack",
    "push": "ortpkg.cli.push",
    "login": "ortpkg.cli.login",
    "logout": "ortpkg.cli.logout",
    "sign": "ortpkg.cli.sign",
    "install": "ortpkg.cli.install",
    "pull": "ortpkg.cli.pull",
    "list": "ortpkg.cli.list_packages",
    "show": "ortpkg.cli.show",
    "outdated": "ortpkg.cli.outdated",
    "upgrade": "ortpkg.cli.upgrade",
    "history": "ortpkg.cli.history",
    "rollback": "ortpkg.cli.rollback",
    "repair": "ortpkg.cli.repair",
    "uninstall": "ortpkg.cli.uninstall",
    "gc": "ortpkg.cli.collect_garbage",
    "lock": "ortpkg.cli.lock",
    "sync": "ortpkg.cli.sync",
    "convert": "ortpkg.cli.convert",
    "merge": "ortpkg.cli.merge",
    "slim": "ortpkg.cli.slim",
    "migrate-check": "ortpkg.cli.migrate_check",
    "select": "ortpkg.cli.select",
    "run": "ortpkg.cli.run",
    "plan": "ortpkg.cli.plan",
    "bench": "ortpkg.cli.bench",
    "report": "ortpkg.cli.report",
    "batch": "ortpkg.cli.batch",
    "serve": "ortpkg.cli.serve",
    "compile": "ortpkg.cli.compile",
    "compile-models": "ortpkg.cli.compile_models",
    "cache": "ortpkg.cli.cache",
    "quarantine": "ortpkg.cli.quarantine",
    "devices": "ortpkg.cli.devices",
    "ep": "ortpkg.cli.ep",
    "doctor": "ortpkg.cli.doctor",
    "settings": "ortpkg.cli.settings_command",
}

_EXIT_CODES: dict[int, str] = {
    ExitCode.DONE: "done",
    ExitCode.FINDINGS: "findings, or a shortfall that --strict or a limit made fatal",
    ExitCode.USAGE: "the command line is wrong",
    ExitCode.NO_SUITABLE_VARIANT: "no suitable variant for this machine, or for what was asked",
    ExitCode.PACKAGE: "the package is wrong, or a change to it was refused",
    ExitCode.MODEL: "the model is wrong or failed to run",
    ExitCode.BACKEND: "an execution provider failed",
    ExitCode.TRUST: "refused for lack of trust",
    ExitCode.REGISTRY: "a registry, or the way to it, failed",
    ExitCode.CANCELLED: "cancelled",
}
#: Exit code for a bug in ortpkg (EX_SOFTWARE of sysexits.h); no other failure has it.
INTERNAL_ERROR = 70

#: Exit codes of verify, which returns their sum.
_VERIFY_EXIT_CODES: dict[int, str] = {
    VerifyExitCode.CHANGED: "verify: files changed; it returns the sum of what it found",
    VerifyExitCode.MISSING_OR_EXTRA: "verify: files are missing or extra",
    VerifyExitCode.UNREADABLE: "verify: files cannot be read",
    VerifyExitCode.UNVERIFIED: "verify: no digests.json, or not all of it can be read",
}

#: Flags that may stand before a command.
_GLOBAL_FLAGS = ("--quiet", "-q", "--no-color")
_HELP_FLAGS = frozenset({"--help", "-h", "--help-all"})
_COMPLETION = "_ORTPKG_COMPLETE"
#: Variable that shows the traceback of an unexpected error.
TRACEBACK_VARIABLE = "ORTPKG_TRACEBACK"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with a documented code."""
    sys.exit(run(list(sys.argv[1:] if arguments is None else arguments)))


def run(words: Sequence[str], *, when_loaded: Callable[[], None] = lambda: None) -> int:
    """Run the command line and return the exit code, whatever happens.

    Standard output is flushed. ``when_loaded`` is called before a command begins.
    """
    streams.prepare()
    reset()
    output = Output(is_json=_wants_json(words))
    try:
        code = _call(words, output, when_loaded)
        streams.flush_output()
    except BrokenPipeError:
        # The reader of the output (head, less) has closed it, and has what it wanted.
        return ExitCode.DONE
    except (KeyboardInterrupt, typer.Abort):
        output.note("cancelled", is_urgent=True)
        code = ExitCode.CANCELLED
    except (OutputError, OSError) as error:
        if isinstance(error, OSError) and _wants_traceback():
            raise
        shown_error = error if isinstance(error, OutputError) else OutputError.of(error)
        print_error(shown_error, Output())
        return shown_error.exit_code
    finally:
        streams.settle()
    return code


def _call(words: Sequence[str], output: Output, when_loaded: Callable[[], None]) -> int:
    words = _without_help_command(words)
    if _COMPLETION in os.environ:
        return _complete(words)
    if _asks_for_help(words):
        configure(is_colorless="--no-color" in words)
        print_help(
            COMMANDS,
            {**_EXIT_CODES, INTERNAL_ERROR: "a bug in ortpkg", **_VERIFY_EXIT_CODES},
            is_whole="--help-all" in words,
        )
        return ExitCode.DONE if words else ExitCode.USAGE
    command_name = _first_word(words)
    if command_name is None or not _is_global(words, command_name):
        return _invoke(_application(command_name, NO_DEFAULTS, is_alone=False), words, {}, output)
    if command_name not in COMMANDS:
        from ortpkg.cli.command_aliases import meant_commands  # only on the way to a message

        return _wrong_usage(
            f"there is no command {quoted(command_name)}{meant_commands(command_name, COMMANDS)};"
            " see ortpkg --help",
            output,
        )
    try:
        defaults = option_defaults(command_name, words, output)
    except UsageError as error:
        return _wrong_usage(str(error), output)
    application = _application(command_name, defaults, is_alone=True)
    when_loaded()
    return _invoke(application, words, {command_name: dict(defaults.values)}, output)


def _first_word(words: Sequence[str]) -> str | None:
    """Return the command, which is the first word that is not a flag, or None."""
    return next((word for word in words if not word.startswith("-")), None)


def _complete(words: Sequence[str]) -> int:
    """Print the completions for the words that the shell has put into the environment."""
    command_name = _first_word(words_to_complete())
    application = typer.main.get_command(_application(command_name, NO_DEFAULTS, is_alone=False))
    application.main(args=list(words), prog_name="ortpkg", complete_var=_COMPLETION)
    return ExitCode.DONE


def _invoke(
    application: typer.Typer,
    words: Sequence[str],
    defaults: dict[str, dict[str, Any]],
    output: Output,
) -> int:
    command = typer.main.get_command(application)
    try:
        # typer itself would print errors in its own way, and exit with 1 if the reader has gone.
        with command.make_context("ortpkg", list(words), default_map=defaults) as context:
            command.invoke(context)
    except typer.Exit as error:
        return error.exit_code
    except typer.TyperException as error:
        refused = getattr(error, "ctx", None)
        hint = f"; see {refused.command_path} --help" if refused is not None else ""
        # Some releases of typer list the choices of a missing argument on separate lines.
        message = " ".join(map(str.strip, error.format_message().splitlines())).rstrip(".")
        return _wrong_usage(f"{message}{_models_hint(message, words)}{hint}", output)
    return ExitCode.DONE


def _models_hint(message: str, words: Sequence[str]) -> str:
    """Return how ``create`` takes model files, if one was given after the package."""
    if _first_word(words) != "create" or "unexpected extra argument" not in message:
        return ""
    return ": give each model with an option that names what it is for, as --cpu MODEL"


def _without_help_command(words: Sequence[str]) -> list[str]:
    """Return ``help COMMAND`` as ``COMMAND --help``, and ``help`` alone as ``--help``."""
    command_name = _first_word(words)
    if command_name != "help" or not _is_global(words, command_name):
        return list(words)
    index = list(words).index(command_name)
    return [*words[:index], *words[index + 1 : index + 2], "--help"]


def _wants_traceback() -> bool:
    """Return True if a traceback is wanted; also for an invalid value.

    ``ortpkg settings`` reports invalid values.
    """
    return yes_or_no(os.environ.get(TRACEBACK_VARIABLE) or "0") is not False


def _asks_for_help(words: Sequence[str]) -> bool:
    """Return True if help for ``ortpkg`` itself is requested.

    That is with no words, or with --help before a command.
    """
    before = itertools.takewhile(lambda word: word.startswith("-"), words)
    return not words or not _HELP_FLAGS.isdisjoint(before)


def _is_global(words: Sequence[str], command_name: str) -> bool:
    """Return True if only global flags stand before the command."""
    return all(word in _GLOBAL_FLAGS for word in words[: list(words).index(command_name)])


def _wants_json(words: Sequence[str]) -> bool:
    """Return True if the words ask for JSON; used for errors before the words are parsed."""
    own_words = list(words[: words.index("--")]) if "--" in words else list(words)
    return (
        "--json" in own_words
        or "--format=json" in own_words
        or ("--format", "json") in itertools.pairwise(own_words)
    )


def _wrong_usage(message: str, output: Output) -> int:
    print_error(UsageError(message), output)
    return ExitCode.USAGE


def _application(
    command_name: str | None, defaults: OptionDefaults, *, is_alone: bool
) -> typer.Typer:
    """Return an application of the commands, of which only the called one is loaded."""
    application = typer.Typer(
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    application.callback()(_global_options)
    for name, module in COMMANDS.items():
        if name == command_name:
            function = _with_typed_exit(importlib.import_module(module).command, defaults)
            application.command(name, add_help_option=False)(function)
        elif not is_alone:
            application.command(name, help=SUMMARIES[name])(_not_loaded)
    return application


def _not_loaded() -> None:
    raise AssertionError("the command that is called is loaded")


def _print_version(wanted: bool) -> None:
    if wanted:
        from ortpkg.api.doctor.software import installed_software  # only for --version

        for name, version in installed_software():
            Output().line(f"{name} {version or 'not installed'}")
        raise typer.Exit


def _global_options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", is_eager=True, callback=_print_version, help="Print versions."
        ),
    ] = False,
    quiet: QuietOption = False,
    no_color: NoColorOption = False,
) -> None:
    """Define the options that stand before the command."""
    del version
    configure(is_quiet=quiet, is_colorless=no_color)


def _with_typed_exit(function: Callable[..., Any], defaults: OptionDefaults) -> Callable[..., None]:
    """Return ``function`` with every error of ours printed and converted to its exit code.

    Users never see a traceback of these errors.
    """

    function = with_single_options(function)

    @functools.wraps(function)
    def command(
        *,
        as_json: bool,
        quiet: bool,
        no_color: bool,
        wants_help: bool,
        wants_whole_help: bool,
        **options: Any,
    ) -> None:
        del wants_help, wants_whole_help  # printed already
        configure(is_quiet=quiet, is_colorless=no_color)
        output = Output(is_json=as_json or options.get("output_format") == "json")
        try:
            code = _run_typed(
                lambda: function(output=output, **resolved_packages(options, output)),
                output,
                defaults,
            )
        except (KeyboardInterrupt, typer.Exit, typer.BadParameter, OutputError, BrokenPipeError):
            raise
        except streams.StandardOutputError:
            raise
        except Exception as error:
            if interrupts.happened():
                raise KeyboardInterrupt from error
            if _wants_traceback():
                raise
            message = (
                f"error: a bug in ortpkg: {type(error).__name__}: {error} (ORTPKG_TRACEBACK=1 shows"
                " where)"
            )
            output.note(message, is_urgent=True)
            code = INTERNAL_ERROR
        raise typer.Exit(code)

    add_common_flags(command)
    return command


def _run_typed(function: Callable[[], Any], output: Output, defaults: OptionDefaults) -> int:
    try:
        return int(function() or 0)
    except RehearsalEnd as rehearsed:
        from ortpkg.cli.dry_run import print_planned  # only for a dry run

        print_planned(rehearsed.files, output)
        return ExitCode.DONE
    except (OutputError, streams.StandardOutputError):
        raise
    except ResultUnreadableError as error:
        output.warning(str(error))
        return error.exit_code
    except (OrtpkgError, OSError) as error:
        if interrupts.happened():  # a library converted the interrupt to another error
            raise KeyboardInterrupt from error
        if isinstance(error, BrokenPipeError) or (
            isinstance(error, OSError) and _wants_traceback()
        ):
            raise
        shown_error = (
            defaults.located(error) if isinstance(error, OrtpkgError) else _refused_by_system(error)
        )
        print_error(shown_error, output)
        return shown_error.exit_code


def _refused_by_system(error: OSError) -> PackageError:
    """Return the error for a file that cannot be read or written.

    It is for system errors of which nothing more specific is known.
    """
    reason = error.strerror or str(error)
    where = "" if error.filename is None else f" {quoted(os.fsdecode(error.filename))}"
    return PackageError(f"the system refuses access to{where or ' a file'}: {reason}")
