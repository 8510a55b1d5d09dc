"""Store weights that several variants have in common once (``dedup``).

The plans (``sharing_plan.py``) are carried out through ``package.changes.transaction``: if anything
fails, the package is either the old or the new one.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path

from ortpkg.authoring.edited_documents import EditedDocuments
from ortpkg.authoring.new_variant import Notify
from ortpkg.authoring.package_on_disk import open_locked_package
from ortpkg.authoring.sharing.asset_plan import plan_assets
from ortpkg.authoring.sharing.component_folders import UsedPaths, check_no_links
from ortpkg.authoring.sharing.layouts import SharedLayout, SharingOptions
from ortpkg.authoring.sharing.shared_folder import SMALLEST_SHARED_NBYTES
from ortpkg.authoring.sharing.sharing_group import SharingPlan
from ortpkg.authoring.sharing.sharing_plan import plan_component
from ortpkg.authoring.variant_places import ComponentDocument, ModelLocation
from ortpkg.authoring.variant_sizes import VariantKey
from ortpkg.foundations.errors import AuthoringError, DigestMismatchError, UsageError, quoted
from ortpkg.foundations.storage.composed_file import ComposedFile
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.foundations.storage.hashing import Progress, hash_files
from ortpkg.package.changes.transaction import PackageChange, commit_change, planned_files
from ortpkg.package.derived_variants import (
    DERIVED_FACT,
    derivation_of,
    recorded_or_computed_digests,
    why_stale,
)
from ortpkg.package.integrity.digests import read_digests
from ortpkg.package.package_info import PackageInfo
from ortpkg.package.reader import open_package

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedVariant:
    """Variant whose model was moved; paths are relative to the package root, with ``/``."""

    component: str
    variant: str
    folder: str
    model_file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutVariant:
    """Variant that has weights in common with another one, but could not share them.

    ``reason`` says why.
    """

    component: str
    variant: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DedupReport:
    """Result of ``dedup``, or with ``dry_run`` the plan.

    Attributes:
        root: of the package.
        moved: variants whose model was moved, in the order of the package.
        removed: removed files → size in bytes; paths are relative to the root, with ``/``.
        added: new files → size in bytes.
        left_out: variants that could not share.
        is_dry_run: nothing was changed.
    """

    root: Path
    moved: tuple[SharedVariant, ...] = ()
    removed: Mapping[str, int] = field(default_factory=dict)
    added: Mapping[str, int] = field(default_factory=dict)
    left_out: tuple[LeftOutVariant, ...] = ()
    is_dry_run: bool = False

    @property
    def saved_nbytes(self) -> int:
        """Bytes by which the package's models and data became smaller."""
        return sum(self.removed.values()) - sum(self.added.values())


def dedup(
    root: str | PathLike[str],
    *,
    layout: str = SharedLayout.COMMON_DIRECTORY,
    externalize_nbytes: int | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
    notify: Notify | None = None,
    operations: FileOperations | None = None,
) -> DedupReport:
    """Store weights that several variants of a component have in common once.

    Nothing is changed if that saves nothing. Weights are equal if they have the same bytes,
    whatever their names and packing: data files, and tensors of 1 KiB and more in data files.
    Models that share lie in one folder, beside the data, so that each loads by its path alone in
    every runtime.

    Args:
        root: the package.
        layout: "common-directory"; "shared-weights": shared data lies in
            ``shared_weights/<SHA-256>/model.data`` in the component's folder,
            ``models/<component>/``, beside the models that share it; or "shared-assets": in
            ``shared_assets/sha256-<hex>/`` of a package of the component generation, for variants
            that have all their weights in common. Such models need the session option that the
            package states for them, and do not load by their path alone.
        externalize_nbytes: weights of that size and more in the ONNX files themselves (at least
            1024) are shared too.
        dry_run: only report the plan.
        progress: called with (file, bytes done, bytes in total) while files are read and copied.
        notify: called with each reason to wait; by default they are logged.
        operations: change the disk.

    Raises:
        UsageError: an unknown layout, or ``externalize_nbytes`` below 1024 (such tensors may be
            shapes that are needed when a model is loaded).
        ModelError: a variant's model or data is damaged.
        DigestMismatchError: a file that would be taken apart is not as digests.json records it.
        AuthoringError: the package holds symbolic links, or the disk is full.
        PackageError: ``root`` is not a valid package.
        PackageBusyError: another command does not finish changing it.
    """
    options = _checked_options(layout, externalize_nbytes)
    target = Path(os.path.abspath(root))  # noqa: PTH100  # Path.resolve would follow links
    package = open_package(target)
    if not options.answers.moves_models and externalize_nbytes is not None:
        raise UsageError("weights in the ONNX files themselves cannot become shared assets")
    if dry_run:
        return _Deduplication(package, options, progress=progress).plan()
    with open_locked_package(
        target, notify=notify or logger.warning, operations=operations
    ) as package:
        return deduplicate(
            package, options, operations=operations, progress=progress, notify=notify
        )


def deduplicate(
    package: PackageInfo,
    options: SharingOptions,
    *,
    only: Collection[VariantKey] | None = None,
    operations: FileOperations | None = None,
    progress: Progress | None = None,
    notify: Notify | None = None,
) -> DedupReport:
    """Store common weights once in a package whose lock the caller holds.

    Args:
        package: the package.
        options: of sharing.
        only: share assets only with one of these (component, variant) pairs; None for all.
        operations: change the disk.
        progress: called while files are read and copied.
        notify: called with messages for the user.

    Raises:
        OrtpkgError: as :func:`dedup`.
    """
    deduplication = _Deduplication(package, options, only=only, progress=progress)
    return deduplication.carry_out(operations, notify)


def _checked_options(layout: str, externalize_nbytes: int | None) -> SharingOptions:
    layouts = [str(member) for member in SharedLayout]
    if layout not in layouts:
        raise UsageError(f"the layout {quoted(layout)} is none of {', '.join(layouts)}")
    if externalize_nbytes is not None and externalize_nbytes < SMALLEST_SHARED_NBYTES:
        raise UsageError(
            f"weights below {SMALLEST_SHARED_NBYTES} bytes stay in the model, {externalize_nbytes}"
            " was given: they may be shapes that are needed when it is loaded"
        )
    return SharingOptions(layout=SharedLayout(layout), smallest_embedded_nbytes=externalize_nbytes)


class _Deduplication:
    """One run over a package that gathers the changes and the report."""

    def __init__(
        self,
        package: PackageInfo,
        options: SharingOptions,
        *,
        only: Collection[VariantKey] | None = None,
        progress: Progress | None = None,
    ) -> None:
        check_no_links(package)
        self._package = package
        self._options = options
        self._only = only
        self._progress = progress
        self._digests_of = recorded_or_computed_digests(package)
        self._locations: dict[VariantKey, ModelLocation] = {}
        self._left_out: dict[VariantKey, str] = {}
        self._freed: dict[Path, int] = {}
        self._new_files: dict[Path, ComposedFile] = {}
        self._removes: list[Path] = []
        self._named = EditedDocuments(package)
        self._moving = EditedDocuments(package)

    def plan(self) -> DedupReport:
        """Return the report of :meth:`carry_out`, without a change to any file."""
        for plan in self._plans():
            self._record(plan)
        return self._report(is_dry_run=True)

    def carry_out(self, operations: FileOperations | None, notify: Notify | None) -> DedupReport:
        """Plan every component, commit the changes, and return the report.

        Each change is one step: an error in a later one leaves the earlier ones in place.
        """
        self._edit_documents()
        changes = list(self._changes())
        if changes:  # the last one includes the first, which only names models
            _announce(self._report(is_dry_run=False), changes[-1], operations, notify)
        for change in changes:
            commit_change(
                self._package.root, change, operations=operations, progress=self._progress
            )
        return self._report(is_dry_run=False)

    def _plans(self) -> Iterator[SharingPlan]:
        if not self._options.answers.moves_models:
            yield plan_assets(self._package, only=self._only, progress=self._progress)
            return
        documents, used = EditedDocuments(self._package), UsedPaths(self._package)
        for component in self._package.components:
            document = ComponentDocument(documents, component)  # without edits
            yield plan_component(
                self._package, component, document, used, self._options, progress=self._progress
            )

    def _record(self, plan: SharingPlan) -> None:
        self._left_out |= plan.left_out
        for group in plan.groups:
            self._locations |= group.locations
            self._freed |= group.freed
            self._new_files |= group.new_files
            self._removes += group.removes

    def _edit_documents(self) -> None:
        """Edit the documents of all components.

        Plans keep model files mapped, which Windows could not delete: none outlives this method.
        """
        for plan in self._plans():
            self._record(plan)
            if plan.groups:
                _verify_digests(
                    self._package,
                    {
                        path: None
                        for group in plan.groups
                        for _, joined in group.joined
                        for path in joined.model.files
                    },
                    self._progress,
                )
                self._edit(plan)

    def _edit(self, plan: SharingPlan) -> None:
        hosts = {group.host.path for group in plan.groups}
        for component in plan.components:
            locations = {
                variant.name: self._locations[component.name, variant.name]
                for variant in component.variants
                if (component.name, variant.name) in self._locations
            }
            if locations:
                variants = [variant for variant in component.variants if variant.directory in hosts]
                for documents in (self._named, self._moving):
                    document = ComponentDocument(documents, component)
                    document.place(document.unnamed(variants))
                ComponentDocument(self._moving, component).place(locations)
        self._restate_sources(plan)

    def _restate_sources(self, plan: SharingPlan) -> None:
        """Update the records of variants that were compiled from models whose files change.

        The models stay the same, so these do not become stale; one that is stale already stays so.
        """
        groups = {key: group for group in plan.groups for key in group.members}
        digests_of = functools.cache(lambda source: groups[source].digests_of(source))
        for component in plan.components:
            for variant in component.variants:
                record = derivation_of(variant)
                if record is None or (component.name, record.variant) not in groups:
                    continue
                if why_stale(variant, component.variant(record.variant), self._digests_of):
                    continue
                model, data = digests_of((component.name, record.variant))
                document = ComponentDocument(self._moving, component)
                renewed = record._replace(model=model, data=data)
                document.state(variant.name, DERIVED_FACT, renewed.as_fact())

    def _changes(self) -> Iterator[PackageChange]:
        """Yield the changes in order: name models found without a name, then move weights."""
        root = self._package.root
        named = {change.path: change for change in self._named.changes()}
        if named:
            yield PackageChange(documents=tuple(named.values()), new_directories={})
        moved = self._moving.changes()
        if moved:
            documents = (
                replace(change, before=named[change.path].after) if change.path in named else change
                for change in moved
            )
            yield PackageChange(
                documents=tuple(documents),
                new_directories={},
                new_files={
                    _relative(path, root): content for path, content in self._new_files.items()
                },
                removes=tuple(_relative(path, root) for path in self._removes),
            )

    def _report(self, *, is_dry_run: bool) -> DedupReport:
        root = self._package.root
        keys = [
            (component.name, variant.name)
            for component in self._package.components
            for variant in component.variants
        ]
        return DedupReport(
            root=root,
            moved=tuple(
                SharedVariant(
                    component=key[0],
                    variant=key[1],
                    folder=_relative(self._locations[key].folder, root),
                    model_file=_relative(self._locations[key].path, root),
                )
                for key in keys
                if key in self._locations
            ),
            removed={_relative(path, root): nbytes for path, nbytes in self._freed.items()},
            added={
                _relative(path, root): content.nbytes for path, content in self._new_files.items()
            },
            left_out=tuple(
                LeftOutVariant(component=key[0], variant=key[1], reason=self._left_out[key])
                for key in keys
                if key in self._left_out and key not in self._locations
            ),
            is_dry_run=is_dry_run,
        )


def _announce(
    report: DedupReport,
    change: PackageChange,
    operations: FileOperations | None,
    notify: Notify | None,
) -> None:
    """Report, in a rehearsal, what a list of files does not show; this ends the rehearsal."""
    if operations is None or operations.are_real:
        return
    for variant in report.left_out:
        (notify or logger.warning)(
            f"{variant.component}/{variant.variant} shares nothing: {variant.reason}"
        )
    (notify or logger.warning)(f"{report.saved_nbytes} bytes would be saved")
    operations.announce(planned_files(report.root, change))


def _verify_digests(package: PackageInfo, paths: Iterable[Path], progress: Progress | None) -> None:
    """Compare files with digests.json before they are taken apart, or damage would be recorded.

    Files that are not recorded pass.

    Raises:
        DigestMismatchError: a file differs from its record.
    """
    recorded = read_digests(package.root)
    if recorded is None:
        return
    names = {_relative(path, package.root): path for path in paths}
    recorded_paths = {name: path for name, path in names.items() if name in recorded.files}
    for name, result in hash_files(recorded_paths, progress=progress).items():
        if isinstance(result, OSError):
            raise AuthoringError(
                f"cannot read {quoted(name)}: {quoted(result.strerror or result)}"
            ) from result
        expected = recorded.files[name].digests
        if result.digest.sha256 not in expected:
            raise DigestMismatchError(
                f"{quoted(name)} is not as digests.json records it: its weights are not shared; see"
                " ortpkg verify",
                file=name,
                expected=expected[-1],
                actual=result.digest.sha256,
                path=package.root,
            )


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()
