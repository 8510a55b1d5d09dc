"""The command line: a literal table of commands, each loaded only when it is the one that was called.

A typer application of many commands costs about 100 ms before it does anything, so ``ortpkg select`` builds one with
the command ``select`` alone; help, completion and mistyped names build all of them.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from ortpkg.cli.rendering import Output, print_error
from ortpkg.errors import ExitCode, OrtpkgError, quoted
from ortpkg.names import did_you_mean

#: Command → module whose function ``command`` runs it. The order is that of ``ortpkg --help``.
COMMANDS: dict[str, str] = {
    "create": "ortpkg.cli.create",
    "init": "ortpkg.cli.init",
    "add-variant": "ortpkg.cli.add_variant",
    "remove-variant": "ortpkg.cli.remove_variant",
    "dedup": "ortpkg.cli.dedup",
    "diff": "ortpkg.cli.diff",
    "inspect": "ortpkg.cli.inspect",
    "validate": "ortpkg.cli.validate",
    "explain": "ortpkg.cli.explain",
    "verify": "ortpkg.cli.verify",
    "pack": "ortpkg.cli.pack",
    "unpack": "ortpkg.cli.unpack",
    "convert": "ortpkg.cli.convert",
    "merge": "ortpkg.cli.merge",
    "slim": "ortpkg.cli.slim",
    "migrate-check": "ortpkg.cli.migrate_check",
    "select": "ortpkg.cli.select",
    "run": "ortpkg.cli.run",
    "plan": "ortpkg.cli.plan",
    "devices": "ortpkg.cli.devices",
}

_EXIT_CODES: dict[ExitCode, str] = {
    ExitCode.DONE: "done",
    ExitCode.FINDINGS: "findings, or a shortfall that --strict or a limit made fatal",
    ExitCode.USAGE: "the command line is wrong",
    ExitCode.NO_SUITABLE_VARIANT: "no suitable variant for this machine, or for what was asked",
    ExitCode.PACKAGE: "the package is wrong, or a change to it was refused",
    ExitCode.MODEL: "the model is wrong or failed to run",
    ExitCode.BACKEND: "an execution provider failed",
    ExitCode.TRUST: "refused for lack of trust",
    ExitCode.CANCELLED: "cancelled",
}
#: A bug of ours (EX_SOFTWARE of sysexits.h): no other failure ends with it.
INTERNAL_ERROR = 70

_HELP = "Packages ONNX models, picks the variant that suits a machine, says why, and runs it."
_EPILOG = "\n\n".join(
    [
        "Exit codes:",
        *(f"{int(code):>4}  {text}" for code, text in _EXIT_CODES.items()),
        f"{INTERNAL_ERROR:>4}  a bug in ortpkg",
    ]
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits with a documented code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    called = next((word for word in words if not word.startswith("-")), None)
    wants_all = called is None or "_ORTPKG_COMPLETE" in os.environ or words[0] != called
    if called is not None and not wants_all and called not in COMMANDS:
        Output().note(f"error: there is no command {quoted(called)}{did_you_mean(called, COMMANDS)}; see ortpkg --help")
        sys.exit(ExitCode.USAGE)
    names = list(COMMANDS) if wants_all or called is None else [called]
    try:
        _application(names)(args=words, prog_name="ortpkg")
    except BrokenPipeError:
        # The reader of our output (head, less) has gone; say nothing more, and keep the interpreter from trying.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(ExitCode.DONE)


def _application(names: Sequence[str]) -> typer.Typer:
    application = typer.Typer(
        help=_HELP,
        epilog=_EPILOG,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    application.callback()(_global_options)
    for name in names:
        function = importlib.import_module(COMMANDS[name]).command
        application.command(name)(_with_typed_exit(function))
    return application


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata  # only for --version

        from ortpkg.version import __version__

        Output().line(f"ortpkg {__version__}")
        for distribution in ("onnx", "numpy", "onnxruntime", "openvino"):
            try:
                Output().line(f"{distribution} {metadata.version(distribution)}")
            except metadata.PackageNotFoundError:
                Output().line(f"{distribution} not installed")
        raise typer.Exit


def _global_options(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Print versions."),
    ] = False,
) -> None:
    """Options before the command."""
    del version


def _with_typed_exit(function: Callable[..., Any]) -> Callable[..., None]:
    """``function``, with every error of ours printed and turned into its exit code; never a traceback."""

    @functools.wraps(function)
    def command(*arguments: Any, **options: Any) -> None:
        output = Output(is_json=bool(options.get("as_json")) or options.get("output_format") == "json")
        try:
            code = function(*arguments, **options)
        except OrtpkgError as error:
            print_error(error, output)
            code = error.exit_code
        except KeyboardInterrupt:
            output.note("cancelled")
            code = ExitCode.CANCELLED
        except (typer.Exit, typer.BadParameter, BrokenPipeError):
            raise
        except Exception as error:
            if os.environ.get("ORTPKG_TRACEBACK"):
                raise
            output.note(f"error: a bug in ortpkg: {type(error).__name__}: {error} (ORTPKG_TRACEBACK=1 shows where)")
            code = INTERNAL_ERROR
        raise typer.Exit(int(code or 0))

    return command
