"""Compare two packages by their meaning, not by how they are written (``diff``).

The generation of the format, the place of files, the packing of data and the order of keys make no
difference.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from ortpkg.authoring.agreement import comparable_constraints
from ortpkg.authoring.model_diff import Change, ComparedModel, ModelDiff, diff_mappings, diff_models
from ortpkg.authoring.model_weights import read_model_weights
from ortpkg.authoring.opening import MODEL_COMPONENT, NamedKind, described_model, kind_of, opened
from ortpkg.foundations.documents.frozen import thaw
from ortpkg.foundations.documents.json_documents import read_document
from ortpkg.foundations.errors import PackageError, quoted
from ortpkg.foundations.storage.hashing import Progress, hash_files
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.formats.component_format import FACTS
from ortpkg.package.formats.executor_info import ORT, data_folder_of
from ortpkg.package.integrity.transferable_files import verify_whole
from ortpkg.package.package_info import ComponentInfo, PackageInfo, ValueInfo, VariantInfo
from ortpkg.package.sidecar import DIGESTS_FILE, PIPELINE, SAMPLES_DIRECTORY

_FACT_OF_SIZE = "nbytes"  # of a variant: reported as its size, and no difference


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantDiff:
    """Differences of a variant that both packages have.

    Attributes:
        component, variant: its names.
        facts: constraints, options, recorded facts, and whether it is one model or a set of files.
        files: further files in its folder, such as compiled contexts → (old, new) SHA-256; "" for a
            missing file.
        model: differences of the models; None for sets of files.
        old_nbytes, new_nbytes: size of all files that it needs.
    """

    component: str
    variant: str
    facts: tuple[Change, ...]
    files: Mapping[str, tuple[str, str]]
    model: ModelDiff | None
    old_nbytes: int
    new_nbytes: int

    @property
    def is_empty(self) -> bool:
        """True if nothing differs: no stated fact, no file, nothing within the model."""
        return not (
            self.facts or self.files or (self.model is not None and not self.model.is_empty)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageDiff:
    """Differences between two packages.

    Attributes:
        facts: name, version, description, inputs and outputs, the order of components, additional
            metadata.
        components_removed, components_added: names.
        variants_removed, variants_added: (component, variant), of component models that both have.
        variants_changed: variants that differ, in the old package's order.
        files: of the samples → (old, new) SHA-256; "" for a missing file.
        old_nbytes, new_nbytes: size of all files.
        old_format, new_format: generation of the format, "" of a bare model; these may differ
            without a difference in meaning.
    """

    facts: tuple[Change, ...] = ()
    components_removed: tuple[str, ...] = ()
    components_added: tuple[str, ...] = ()
    variants_removed: tuple[tuple[str, str], ...] = ()
    variants_added: tuple[tuple[str, str], ...] = ()
    variants_changed: tuple[VariantDiff, ...] = ()
    files: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    old_nbytes: int = 0
    new_nbytes: int = 0
    old_format: str = ""
    new_format: str = ""

    @property
    def is_equal(self) -> bool:
        """True if both packages state and hold the same."""
        return not (
            self.facts
            or self.components_removed
            or self.components_added
            or self.variants_removed
            or self.variants_added
            or self.variants_changed
            or self.files
        )


def diff(
    old: str | PathLike[str], new: str | PathLike[str], *, progress: Progress | None = None
) -> PackageDiff:
    """Compare two packages, in any format that ortpkg reads, packed ones too.

    Weights are streamed, nothing is run. Components and variants are matched by name, weights by
    name within their model. Two bare models (ONNX files) are compared like the only variants of
    packages of the same name.

    Raises:
        PackageError: one of them is not a valid package.
        AuthoringError: one of them lacks absent files; the message names them.
        ModelError: a model is damaged.
    """
    if kind_of(old) is kind_of(new) is NamedKind.MODEL:
        first, second = (
            described_model(Path(source), name=MODEL_COMPONENT) for source in (old, new)
        )
        return _diff(first, second, progress)
    with opened(old, progress=progress) as first, opened(new, progress=progress) as second:
        for package in (first, second):
            # Absent files cannot be compared.
            verify_whole(package.root)
        return _diff(first, second, progress)


def _diff(old: PackageInfo, new: PackageInfo, progress: Progress | None) -> PackageDiff:
    ours, theirs = _Package(old, progress), _Package(new, progress)
    compared = (_diff_variant(ours, theirs, key) for key in ours.variants if key in theirs.variants)
    return PackageDiff(
        facts=tuple(_diff_facts(ours.info, theirs.info)),
        components_removed=tuple(name for name in ours.names if name not in theirs.names),
        components_added=tuple(name for name in theirs.names if name not in ours.names),
        variants_removed=tuple(
            key for key in ours.variants if key not in theirs.variants and key[0] in theirs.names
        ),
        variants_added=tuple(
            key for key in theirs.variants if key not in ours.variants and key[0] in ours.names
        ),
        variants_changed=tuple(difference for difference in compared if not difference.is_empty),
        files=_diff_files(ours.sidecar_files(), theirs.sidecar_files(), progress),
        old_nbytes=ours.total_nbytes,
        new_nbytes=theirs.total_nbytes,
        old_format=_format_of(ours.info),
        new_format=_format_of(theirs.info),
    )


def _format_of(package: PackageInfo) -> str:
    return "" if package.root.is_file() else package.format.value


class _Package:
    """One of the two packages."""

    def __init__(self, info: PackageInfo, progress: Progress | None) -> None:
        self.info = info
        self.progress = progress
        self.names = [component.name for component in info.components]
        self.variants = {
            (component.name, variant.name): variant
            for component in info.components
            for variant in component.variants
        }
        self._needed = {key: self._needed_files(variant) for key, variant in self.variants.items()}
        self._of_models = {path for needed in self._needed.values() for path in needed}

    @property
    def total_nbytes(self) -> int:
        """Size of all its files; for a bare model, of the files that it needs."""
        is_model = self.info.is_bare_model
        return _total_nbytes(
            map(Path.resolve, self._of_models) if is_model else self.info.root.rglob("*")
        )

    def nbytes_of(self, key: tuple[str, str]) -> int:
        """Return the size of a variant's model and data, or of all its files if it is a set."""
        return _total_nbytes(
            map(Path.resolve, self._needed[key])
            if self._needed[key]
            else self.other_files(key).values()
        )

    def other_files(self, key: tuple[str, str]) -> dict[str, Path]:
        """Map name → path of files in a variant's folder that no variant needs as model or data."""
        if self.info.is_bare_model:
            return {}
        folder = self.variants[key].directory
        return _files_below(folder, without=self._of_models | self._documents())

    def sidecar_files(self) -> dict[str, Path]:
        """Return the files of the samples."""
        return {
            f"{SAMPLES_DIRECTORY}/{name}": path
            for name, path in _files_below(self.info.root / SAMPLES_DIRECTORY).items()
        }

    def _documents(self) -> set[Path]:
        return {
            self.info.root / component.source.document for component in self.info.components
        } | {self.info.root / name for name in (MANIFEST, PIPELINE, DIGESTS_FILE)}

    def _needed_files(self, variant: VariantInfo) -> tuple[Path, ...]:
        if variant.model_path is None:
            return ()
        folder, is_bare = data_folder_of(variant), self.info.is_bare_model
        weights = read_model_weights(variant.model_path, data_folder=folder, is_bare=is_bare)
        return (weights.path, *weights.data_files)


def _diff_variant(ours: _Package, theirs: _Package, key: tuple[str, str]) -> VariantDiff:
    old, new = ours.variants[key], theirs.variants[key]
    facts = list(_diff_variant_facts(ours.info, old, theirs.info, new))
    model = None
    if old.model_path is not None and new.model_path is not None:
        model = diff_models(
            ComparedModel(
                path=old.model_path,
                data_folder=data_folder_of(old),
                is_bare=ours.info.is_bare_model,
            ),
            ComparedModel(
                path=new.model_path,
                data_folder=data_folder_of(new),
                is_bare=theirs.info.is_bare_model,
            ),
        )
    elif old.model_path != new.model_path:
        kinds = [
            ("a model" if variant.model_path is not None else "a set of files")
            for variant in (old, new)
        ]
        facts.append(Change(what="kind", old=kinds[0], new=kinds[1]))
    return VariantDiff(
        component=key[0],
        variant=key[1],
        facts=tuple(facts),
        files=_diff_files(ours.other_files(key), theirs.other_files(key), ours.progress),
        model=model,
        old_nbytes=ours.nbytes_of(key),
        new_nbytes=theirs.nbytes_of(key),
    )


def _diff_facts(old: PackageInfo, new: PackageInfo) -> Iterator[Change]:
    yield from diff_mappings("package", _facts_of(old), _facts_of(new))
    yield from _diff_order("order of component models", old.components, new.components)
    for component in old.components:
        other = new.component(component.name)
        if other is not None:
            label = f"component {component.name}"
            yield from diff_mappings(label, _component_facts(component), _component_facts(other))
            yield from _diff_order(
                f"order of variants of {component.name}", component.variants, other.variants
            )
    pipelines = [
        read_document(package.root / PIPELINE, document=PIPELINE) if package.has_pipeline else None
        for package in (old, new)
    ]
    if pipelines[0] != pipelines[1]:
        yield Change(what="pipeline", old=pipelines[0], new=pipelines[1])


def _diff_order(
    label: str,
    old: Sequence[ComponentInfo | VariantInfo],
    new: Sequence[ComponentInfo | VariantInfo],
) -> Iterator[Change]:
    """Yield a change if the common elements are in another order, which decides between equals."""
    ours, theirs = [item.name for item in old], [item.name for item in new]
    ours, theirs = (
        [name for name in ours if name in theirs],
        [name for name in theirs if name in ours],
    )
    if ours != theirs:
        yield Change(what=label, old=ours, new=theirs)


def _facts_of(package: PackageInfo) -> dict[str, Any]:
    return {
        "name": package.name,
        "version": package.version,
        "description": package.description,
        "inputs": list(map(_value_text, package.inputs)),
        "outputs": list(map(_value_text, package.outputs)),
        "additional_metadata": _foreign(package.additional_metadata),
    }


def _component_facts(component: ComponentInfo) -> dict[str, Any]:
    return {
        "metadata": thaw(component.metadata),
        "additional_metadata": _foreign(component.additional_metadata),
    }


def _diff_variant_facts(
    old_package: PackageInfo, old: VariantInfo, new_package: PackageInfo, new: VariantInfo
) -> Iterator[Change]:
    yield from diff_mappings(
        "constraint",
        comparable_constraints(old.constraints),
        comparable_constraints(new.constraints),
    )
    for kind in ("session_options", "provider_options"):
        ours = _options_of(old_package, getattr(old, kind))
        yield from diff_mappings(
            kind.rstrip("s").replace("_", " "), ours, _options_of(new_package, getattr(new, kind))
        )
    facts = [
        {key: value for key, value in thaw(variant.metadata).items() if key != _FACT_OF_SIZE}
        for variant in (old, new)
    ]
    yield from diff_mappings("fact", facts[0], facts[1])
    payloads = [
        thaw({key: value for key, value in variant.executor_info.items() if key != ORT})
        for variant in (old, new)
    ]
    yield from diff_mappings("executor info", payloads[0], payloads[1])
    additional = [_foreign(variant.additional_metadata) for variant in (old, new)]
    if additional[0] != additional[1]:
        yield Change(what="additional_metadata", old=additional[0], new=additional[1])


def _options_of(package: PackageInfo, options: Mapping[str, str]) -> dict[str, str]:
    """Return options with paths into the package as relative ones."""
    root = str(package.root)
    return {
        key: Path(value).relative_to(package.root).as_posix()
        if value.startswith(root + os.sep)
        else value
        for key, value in options.items()
    }


def _foreign(additional: Any) -> Any:
    """Return additional metadata without ortpkg's own facts, which are compared by meaning."""
    thawed = thaw(additional)
    if isinstance(thawed, dict):
        thawed.pop(FACTS, None)
    return thawed or None


def _value_text(value: ValueInfo) -> str:
    sizes = (
        ""
        if value.shape is None
        else ", ".join("?" if size is None else str(size) for size in value.shape)
    )
    image = (
        ""
        if value.value_range is None
        else f" from {value.value_range[0]} to {value.value_range[1]}"
    )
    return (
        f"{value.name}: {value.type}[{sizes}]{image}"
        if value.shape is not None
        else f"{value.name}: {value.type}"
    )


def _diff_files(
    old: Mapping[str, Path], new: Mapping[str, Path], progress: Progress | None
) -> dict[str, tuple[str, str]]:
    digests = [_digests_of(files, progress) for files in (old, new)]
    pairs = {
        name: (digests[0].get(name, ""), digests[1].get(name, ""))
        for name in dict.fromkeys((*old, *new))
    }
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _digests_of(files: Mapping[str, Path], progress: Progress | None) -> dict[str, str]:
    digests = {}
    for name, hashed in hash_files(files, progress=progress).items():
        if isinstance(hashed, OSError):
            raise PackageError(
                f"cannot read {quoted(name)}: {quoted(hashed.strerror or hashed)}", path=files[name]
            )
        digests[name] = hashed.digest.sha256
    return digests


def _files_below(folder: Path, without: Collection[Path] = ()) -> dict[str, Path]:
    paths = sorted(Path(parent, name) for parent, _, names in os.walk(folder) for name in names)
    return {path.relative_to(folder).as_posix(): path for path in paths if path not in without}


def _total_nbytes(paths: Iterable[Path]) -> int:
    return sum(path.lstat().st_size for path in paths if path.is_file())
