"""What the checks of ``validate`` look at: the package, and its models without their weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ortpkg.authoring.checks.data_references import (
    ContextReference,
    DataReference,
    context_references,
    data_references,
)
from ortpkg.authoring.checks.genai_config import genai_models
from ortpkg.documents.document_rules import Rule
from ortpkg.documents.findings import finding
from ortpkg.errors import Finding, ModelError
from ortpkg.graph.load_control import DECLARED_NBYTES, passing_charges, poll_load
from ortpkg.graph.model_file import read_model_file
from ortpkg.graph.model_limits import ModelLimits
from ortpkg.graph.model_signature import ModelSignature, signature_of
from ortpkg.graph.operator_scan import UsedOperators, scan_operators
from ortpkg.package.formats.executor_info import EXTERNAL_INITIALIZERS_FOLDER
from ortpkg.package.package_info import ComponentInfo, PackageInfo, Source, VariantInfo
from ortpkg.storage.hashing import Progress

_LIMITS = ModelLimits()
_Place = tuple[Source, Path]
"""Where a component is described, and its folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedModel:
    """One ONNX file of a variant.

    Attributes:
        path: of the file.
        data_folder: what the locations of its external data are relative to.
        data, contexts: the files that it names.
        operators: those that its nodes have; None where they cannot be told.
        signature: None where it cannot be had.
        error: why not; "" where it can.
    """

    path: Path
    data_folder: Path
    data: tuple[DataReference, ...] = ()
    contexts: tuple[ContextReference, ...] = ()
    operators: UsedOperators | None = None
    signature: ModelSignature | None = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedPackage:
    """A package whose documents are valid.

    Many components may name one document: what is wrong with the variants in it is told once.

    Attributes:
        info: the package.
        described: where components are described → the first of those that are described there.
        models: (component, variant) → its ONNX files, of the components in ``described``; of a
            GenAI variant those that genai_config.json names.
        targets: the readers that were asked for.
        progress: told which file is being hashed.
    """

    info: PackageInfo
    described: Mapping[_Place, ComponentInfo]
    models: Mapping[tuple[str, str], tuple[OpenedModel, ...]]
    targets: tuple[str, ...] = ()
    progress: Progress | None = None

    @classmethod
    def of(
        cls, info: PackageInfo, *, targets: tuple[str, ...] = (), progress: Progress | None = None
    ) -> CheckedPackage:
        """The package with all its models that are here opened."""
        described = {_place(component): component for component in reversed(info.components)}
        described = dict(reversed(described.items()))
        return cls(
            info=info,
            described=described,
            models=_open_models(info, described.values()),
            targets=targets,
            progress=progress,
        )

    @property
    def components(self) -> Iterable[ComponentInfo]:
        """One for each place that describes some, in declaration order."""
        return self.described.values()

    @property
    def variants(self) -> Iterator[VariantInfo]:
        """Those of :attr:`components`, in declaration order."""
        for component in self.components:
            yield from component.variants

    def models_of(self, variant: VariantInfo) -> tuple[OpenedModel, ...]:
        """The ONNX files of one of :attr:`variants`."""
        return self.models.get((variant.component_name, variant.name), ())

    def signatures_of(
        self, component: ComponentInfo
    ) -> Iterator[tuple[VariantInfo, ModelSignature]]:
        """The component's variants whose one model could be read, in declaration order."""
        for variant in self.described[_place(component)].variants:
            if variant.model_path is not None:
                for model in self.models_of(variant):
                    if model.signature is not None:
                        yield variant, model.signature

    def signature_of(self, component: str) -> ModelSignature | None:
        """What the component takes and gives: the signature of its first variant that has one."""
        found = self.info.component(component)
        opened = self.signatures_of(found) if found is not None else iter(())
        return next((signature for _, signature in opened), None)


def _place(component: ComponentInfo) -> _Place:
    return component.source, component.directory


def _open_models(
    info: PackageInfo, components: Iterable[ComponentInfo]
) -> dict[tuple[str, str], tuple[OpenedModel, ...]]:
    """Every model of ``components`` that is here; one that several variants use is opened once."""
    opened: dict[tuple[Path, Path], OpenedModel] = {}
    models = {}
    for component in components:
        for variant in component.variants:
            if variant.is_absent:
                continue
            paths = (
                genai_models(info, variant) if variant.model_path is None else [variant.model_path]
            )
            found = []
            for path in paths:
                folder = _data_folder(info, variant, path)
                if (path, folder) not in opened:
                    opened[path, folder] = _open(path, folder)
                found.append(opened[path, folder])
            models[component.name, variant.name] = tuple(found)
    return models


def _data_folder(info: PackageInfo, variant: VariantInfo, model: Path) -> Path:
    """The folder that locations of a variant's external data are relative to.

    It is the model's own, or the one that an option of the variant states.

    The reader resolves the option in the component generation's keys; the other generation does not
    have it.
    """
    stated = Path(variant.session_options.get(EXTERNAL_INITIALIZERS_FOLDER, ""))
    return stated if stated.is_absolute() and stated.is_relative_to(info.root) else model.parent


def of_variant(rule: Rule, variant: VariantInfo, message: str, *, target: str = "") -> Finding:
    """A finding that points at the variant's declaration."""
    found = finding(rule, variant.source.document, message, pointer=variant.source.pointer)
    return replace(found, target=target) if target else found


def _open(path: Path, folder: Path) -> OpenedModel:
    operators = scan_operators(path, limits=_LIMITS)
    model = OpenedModel(path=path, data_folder=folder, operators=operators)
    try:
        with passing_charges():
            proto = read_model_file(path, limits=_LIMITS).proto
            model = replace(
                model,
                data=tuple(data_references(proto, _LIMITS)),
                contexts=tuple(context_references(proto, _LIMITS)),
            )
            signature = signature_of(proto, limits=_LIMITS)
        kept = (*model.data, *model.contexts, *signature.inputs, *signature.outputs)
        poll_load(DECLARED_NBYTES * len(kept))
        return replace(model, signature=signature)
    except ModelError as error:
        return replace(model, error=str(error))
