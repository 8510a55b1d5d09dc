"""Package argument of commands: a reference, which is resolved to a folder before the command runs.

A path stays unchanged. A name is looked up in the store. A package in a registry or layout is
fetched first, and what is fetched is printed. A command that changes its package accepts only
folders.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ortpkg.foundations.errors import UsageError, quoted, unquoted

if TYPE_CHECKING:
    from ortpkg.cli.rendering import Output
    from ortpkg.package.references.package_references import Reference, StoreReference


class Use(Enum):
    """Use that a command makes of its package."""

    READ = "read"
    READ_ALL = "read all"
    RUN_SAMPLES = "run samples"
    UNPACK = "unpack"
    CHANGE = "change"


class NamedPackage(type(Path())):  # type: ignore[misc]  # typer hands on paths as they are
    """Package as named on the command line; as a path it is what a folder would be.

    Attributes:
        text: Its reference.
        use: Use that the command makes of it.
    """

    text: str
    use: Use

    @classmethod
    def of(cls, text: str, use: Use) -> NamedPackage:
        """Return the package of a reference, which is not checked yet."""
        named = cls(text)
        named.text, named.use = text, use
        return named


def package_parser(use: Use) -> Callable[[str], NamedPackage]:
    """Return a parser for a package reference, which is not checked yet; shells complete paths."""

    def path(text: str) -> NamedPackage:  # typer shows this function's name as the expected value
        return NamedPackage.of(text, use)

    return path


def resolved_packages(options: Mapping[str, Any], output: Output) -> dict[str, Any]:
    """Return the options of a command, with folders instead of references.

    Raises:
        PackageReferenceError, PackageNotInstalledError, RegistryError: A reference cannot be
        resolved.
        UsageError: The command changes packages, and the reference names one in the store.
    """
    resolver = _Resolver(options, output)
    return {name: resolver.resolved(value) for name, value in options.items()}


class _Resolver:
    def __init__(self, options: Mapping[str, Any], output: Output) -> None:
        self._options = options
        self._output = output

    def resolved(self, value: Any) -> Any:
        """Return a value, or each of several, with a folder instead of a reference."""
        if isinstance(value, NamedPackage):
            return self._folder(value)
        if isinstance(value, list | tuple) and any(
            isinstance(item, NamedPackage) for item in value
        ):
            return [self.resolved(item) for item in value]
        return value

    def _folder(self, named: NamedPackage) -> Path:
        if _is_plain_path(named.text):
            path = Path(named.text)
            if self._is_change(named):
                verify_not_in_store(path)
            return path
        from ortpkg.package.references.package_references import (
            PathReference,
            StoreReference,
            parse_reference,
        )

        reference = parse_reference(named.text)
        if isinstance(reference, PathReference):
            return reference.path
        if named.use is Use.UNPACK:
            raise UsageError(
                f"{quoted(named.text)} is no file: ortpkg pull {unquoted(named.text)} -o FOLDER"
                " --all-variants --samples makes a directory of what a reference names"
            )
        if not self._is_change(named):
            return self._used(reference, named)
        if isinstance(reference, StoreReference) and not _is_installed(reference):
            return Path(named.text)  # the command reports that there is none
        raise UsageError(
            f"{quoted(named.text)} is no folder of yours, and only such packages can be changed:"
            f" ortpkg pull {unquoted(named.text)} -o FOLDER makes a copy"
        )

    def _is_change(self, named: NamedPackage) -> bool:
        return named.use is Use.CHANGE or bool(self._options.get("in_place"))

    def _used(self, reference: Reference, named: NamedPackage) -> Path:
        # Imported late, because most packages are folders.
        from ortpkg.cli.installing import print_plan, wishes_of_command
        from ortpkg.cli.progress import copy_progress
        from ortpkg.distribution.opening_references import use_package
        from ortpkg.distribution.variant_choice import InstallWishes

        wants_samples = named.use is Use.RUN_SAMPLES and not self._options.get("inputs")
        wishes = (
            InstallWishes(all_variants=True, samples=True)
            if named.use is Use.READ_ALL
            else wishes_of_command(self._options, samples=wants_samples)
        )
        with copy_progress() as progress:
            return use_package(
                reference,
                wishes,
                trust_policy=self._options.get("trust_policy"),
                on_plan=lambda plan: print_plan(plan, self._output),
                progress=progress,
            )


def _is_plain_path(text: str) -> bool:
    return not text or (":" not in text and Path(text).exists())


def _is_installed(reference: StoreReference) -> bool:
    from ortpkg.distribution.store.installed_packages import InstalledPackages  # only for names

    return any(package.name == reference.name for package in InstalledPackages().packages())


def verify_not_in_store(path: Path) -> None:
    """Raise UsageError for a folder in the store; a change would affect all users of its files."""
    from ortpkg.foundations.host.directories import store_directory

    real = path.resolve()
    if real.is_relative_to(store_directory().resolve()):
        raise UsageError(
            f"{quoted(path)} lies in the store, which is read-only: ortpkg pull"
            f" {_name_of_tree(real)} -o FOLDER makes a copy that can be changed"
        )


def _name_of_tree(root: Path) -> str:
    """Return the name under which a folder in the store is installed; NAME if it is not in use."""
    from ortpkg.distribution.store.installed_packages import InstalledPackages

    tree = "/".join(root.parts[-3:-1])
    packages = InstalledPackages().packages(on_damage=lambda _: None)
    return next((generation.name for generation in packages if generation.tree == tree), "NAME")
