"""Subject of the checks of ``validate``: the package, and its models without their weights."""

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
from ortpkg.foundations.documents.document_rules import Rule
from ortpkg.foundations.documents.finding_collector import finding
from ortpkg.foundations.errors import Finding, ModelError
from ortpkg.foundations.storage.hashing import Progress
from ortpkg.graph.load_control import DECLARED_NBYTES, passing_charges, poll_load
from ortpkg.graph.model_file import read_model_file
from ortpkg.graph.model_limits import ModelLimits
from ortpkg.graph.model_signature import ModelSignature, signature_of
from ortpkg.graph.operator_scan import UsedOperators, scan_operators
from ortpkg.package.formats.executor_info import EXTERNAL_INITIALIZERS_FOLDER
from ortpkg.package.package_info import ComponentInfo, PackageInfo, Source, VariantInfo

_LIMITS = ModelLimits()
_Description = tuple[Source, Path]
"""Place of a component's description: its source and its folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedModel:
    """One ONNX file of a variant.

    Attributes:
        path: path to the file.
        data_folder: the folder of its external data.
        data, contexts: the files that it names.
        operators: of its nodes; None if they cannot be read.
        signature: None if it cannot be read.
        error: why not; "" if it can.
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
    """Package whose documents are valid.

    Many components may name one document: problems of the variants in it are reported once.

    Attributes:
        info: the package.
        described: place of each description → the first component with it.
        models: (component, variant) → its ONNX files, for the components in ``described``; for a
            GenAI variant those that genai_config.json names.
        targets: the readers that the caller asks about.
        progress: called while files are hashed.
    """

    info: PackageInfo
    described: Mapping[_Description, ComponentInfo]
    models: Mapping[tuple[str, str], tuple[OpenedModel, ...]]
    targets: tuple[str, ...] = ()
    progress: Progress | None = None

    @classmethod
    def of(
        cls, info: PackageInfo, *, targets: tuple[str, ...] = (), progress: Progress | None = None
    ) -> CheckedPackage:
        """Open all models of the package that are on the disk."""
        described = {
            _description_of(component): component for component in reversed(info.components)
        }
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
        """One component for each description, in declaration order."""
        return self.described.values()

    @property
    def variants(self) -> Iterator[VariantInfo]:
        """Variants of :attr:`components`, in declaration order."""
        for component in self.components:
            yield from component.variants

    def models_of(self, variant: VariantInfo) -> tuple[OpenedModel, ...]:
        """Return the ONNX files of one of :attr:`variants`."""
        return self.models.get((variant.component_name, variant.name), ())

    def signatures_of(
        self, component: ComponentInfo
    ) -> Iterator[tuple[VariantInfo, ModelSignature]]:
        """Yield the component's variants whose one model could be read, in declaration order."""
        for variant in self.described[_description_of(component)].variants:
            if variant.model_path is not None:
                for model in self.models_of(variant):
                    if model.signature is not None:
                        yield variant, model.signature

    def signature_of(self, component: str) -> ModelSignature | None:
        """Return the signature of the component's first variant that has one."""
        named = self.info.component(component)
        opened = self.signatures_of(named) if named is not None else iter(())
        return next((signature for _, signature in opened), None)


def _description_of(component: ComponentInfo) -> _Description:
    return component.source, component.directory


def _open_models(
    info: PackageInfo, components: Iterable[ComponentInfo]
) -> dict[tuple[str, str], tuple[OpenedModel, ...]]:
    """Open every model of ``components`` on the disk; a model of several variants only once."""
    opened: dict[tuple[Path, Path], OpenedModel] = {}
    models = {}
    for component in components:
        for variant in component.variants:
            if variant.is_absent:
                continue
            paths = (
                genai_models(info, variant) if variant.model_path is None else [variant.model_path]
            )
            variant_models = []
            for path in paths:
                folder = _data_folder(info, variant, path)
                if (path, folder) not in opened:
                    opened[path, folder] = _open(path, folder)
                variant_models.append(opened[path, folder])
            models[component.name, variant.name] = tuple(variant_models)
    return models


def _data_folder(info: PackageInfo, variant: VariantInfo, model: Path) -> Path:
    """Return the folder of a model's external data: its own, or the one that an option states.

    The reader resolves the option in the component generation's keys; the other generation does not
    have it.
    """
    option = Path(variant.session_options.get(EXTERNAL_INITIALIZERS_FOLDER, ""))
    return option if option.is_absolute() and option.is_relative_to(info.root) else model.parent


def finding_of_variant(
    rule: Rule, variant: VariantInfo, message: str, *, target: str = ""
) -> Finding:
    """Return a finding that points at the variant's declaration."""
    result = finding(rule, variant.source.document, message, pointer=variant.source.pointer)
    return replace(result, target=target) if target else result


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
        declared = (*model.data, *model.contexts, *signature.inputs, *signature.outputs)
        poll_load(DECLARED_NBYTES * len(declared))
        return replace(model, signature=signature)
    except ModelError as error:
        return replace(model, error=str(error))
