"""Find the model of a variant: the file that a document names, or the folder's only ONNX file.

Rule of onnxruntime 1.26 and 1.27: the name is relative to ``models/<component>/<folder>/``; a
directory, or no name at all, stands for the only ``*.onnx`` file directly in it. The pull request's
drafts give ``file`` relative to the component's folder, which is tried second, but never yields
another variant's model. A folder with ``genai_config.json`` is a GenAI variant: a set of files.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Collection
from pathlib import Path, PurePath, PurePosixPath
from typing import NamedTuple

from ortpkg.foundations.documents.document_rules import DOCUMENT_UNREADABLE, Rule
from ortpkg.foundations.documents.finding_collector import FindingCollector, listed
from ortpkg.foundations.errors import PackageError, quoted
from ortpkg.package.package_info import Source, VariantInfo
from ortpkg.package.paths.disk_places import PathKind, kind_at, list_names
from ortpkg.package.paths.path_resolver import PathRefusedError, PathResolver, PathTarget
from ortpkg.package.rules import AMBIGUOUS_MODEL_FILE, FILE_MISSING, NO_MODEL_FILE

GENAI_CONFIG = "genai_config.json"
_MODEL_SUFFIX = ".onnx"


class Siblings(NamedTuple):
    """Paths of the models of all variants of one component.

    Attributes:
        folders: folders of all of them.
        in_own_folder: models, relative to the component's folder, of the variants whose folder is
            the component's own; "." for the only model in it.
    """

    folders: Collection[str] = frozenset()
    in_own_folder: Collection[str] = frozenset()


class ModelPaths(NamedTuple):
    """Paths of a variant's files.

    Attributes:
        directory: folder of all its files.
        model_path: the ONNX file; None for a GenAI variant.
    """

    directory: str
    model_path: str | None


def resolve_model(
    *,
    reference: str | None,
    component_base: str,
    folder: str,
    siblings: Siblings,
    source: Source,
    resolver: PathResolver,
    collector: FindingCollector,
) -> ModelPaths | None:
    """Return the model of one variant; None, with findings in ``collector``, if there is none.

    Args:
        reference: ``model_file`` or ``file`` as declared; None if there is none.
        component_base: the component's folder relative to the package root.
        folder: the variant's folder, a name below ``component_base``.
        siblings: the component's variants, whose models are not this variant's.
        source: where ``reference`` (or else the variant) is declared.
        resolver: of the package.
        collector: receives the findings.
    """
    search = _ModelSearch(component_base, folder, siblings, source, resolver, collector)
    try:
        return search.named(reference) if reference else search.only_one(search.base)
    except PathRefusedError as error:
        collector.extend([error.finding(source.document, pointer=source.pointer)])
    except PackageError as error:
        collector.add(DOCUMENT_UNREADABLE, source.document, str(error), pointer=source.pointer)
    return None


def why_no_model(variant: VariantInfo) -> str:
    """Return why a variant has no model, as the end of a sentence about it.

    It is a set of files, or names none.
    """
    folder = quoted(variant.directory)
    if (variant.directory / GENAI_CONFIG).is_file():
        return (
            f"is a GenAI variant: a set of files in {folder} for onnxruntime-genai, not a model"
            " that a session runs"
        )
    directory = str(variant.directory)
    is_folder = kind_at(directory) is PathKind.DIRECTORY
    names = _models_among(list_names(variant.directory, PathKind.FILE)) if is_folder else []
    if len(names) == 1:
        return (
            f"names no model in executor_info: {quoted(names[0])} in {folder} would be one for its"
            " ort.model_file"
        )
    content = f"holds {listed(names)}" if names else "holds no ONNX file"
    return f"names no model in executor_info.ort.model_file, and {folder} {content}"


def only_model_in(folder: str) -> str | None:
    """Return the path of the one ONNX file directly in ``folder``; None for none or several."""
    names = _models_among(list_names(Path(folder), PathKind.FILE))
    return os.path.join(folder, names[0]) if len(names) == 1 else None  # noqa: PTH118


class _ModelSearch:
    def __init__(
        self,
        component_base: str,
        folder: str,
        siblings: Siblings,
        source: Source,
        resolver: PathResolver,
        collector: FindingCollector,
    ) -> None:
        self._component_base = component_base
        self._folder = folder
        self._siblings = siblings
        self.base = f"{component_base}/{folder}" if component_base else folder
        self._source = source
        self._resolver = resolver
        self._collector = collector

    def named(self, reference: str) -> ModelPaths | None:
        """Find the model ``reference`` in the variant's folder, else in the component's.

        Return None, with a finding, if it leads to no model.
        """
        variant_directory = self._resolver.locate(self.base)
        remedy = ""
        for base in (self.base, self._component_base):
            resolved = self._resolver.locate(reference, base=base)
            if base == self._component_base and (
                remedy := self._why_not_its_own(reference, resolved)
            ):
                break
            if resolved.kind is PathKind.FILE:
                is_own = variant_directory.kind is PathKind.DIRECTORY
                return ModelPaths(
                    directory=variant_directory.path if is_own else os.path.dirname(resolved.path),  # noqa: PTH120  # strings: there may be many
                    model_path=resolved.path,
                )
            if resolved.kind is PathKind.DIRECTORY:
                return self.only_one(f"{base}/{reference}" if base else reference)
        message = f"model file {quoted(reference)} does not exist in {quoted(self.base)}"
        present = self._onnx_names(variant_directory)
        self._add(
            FILE_MISSING, message, remedy or (f"there is {listed(present)}" if present else "")
        )
        return None

    def _why_not_its_own(self, reference: str, resolved: PathTarget) -> str:
        """Return whose the model is if it is not this variant's own; else ""."""
        if resolved.kind is PathKind.MISSING:
            return ""
        names = [next((name for name in reference.split("/") if name not in ("", ".")), "")]
        component = (
            self._resolver.locate(self._component_base).path
            if self._component_base
            else self._resolver.real_root
        )
        paths = [PurePosixPath(posixpath.normpath(reference))]
        path = PurePath(resolved.path)
        if path.is_relative_to(component):
            paths.append(PurePosixPath(path.relative_to(component).as_posix()))
            names += paths[-1].parts[:1]
        other = next(
            (name for name in names if name in self._siblings.folders and name != self._folder),
            None,
        )
        if other is not None:
            return f"what is meant lies in {quoted(other)}, the folder of another variant"
        if resolved.kind is PathKind.DIRECTORY:  # it stands for the only model in it
            paths += [path / name for path in paths for name in self._onnx_names(resolved)[:1]]
        if any(map(self._is_in_own_folder, paths)):
            where = quoted(self._component_base or ".")
            return f"what is meant is the model of another variant, whose folder is {where}"
        return ""

    def _is_in_own_folder(self, path: PurePosixPath) -> bool:
        """Return True if ``path`` is the model of a variant in the component's own folder."""
        models = self._siblings.in_own_folder
        # Such a variant may name a folder, or none at all: every model directly in it belongs to
        # that variant.
        return str(path) in models or (
            path.name.lower().endswith(_MODEL_SUFFIX) and str(path.parent) in models
        )

    def only_one(self, directory: str) -> ModelPaths | None:
        """Find the only ONNX file of ``directory``; a GenAI folder has no model, but counts.

        Return None, with a finding, for none or several.
        """
        resolved = self._resolver.locate(directory)
        if resolved.kind is not PathKind.DIRECTORY:
            problem = "does not exist" if resolved.kind is PathKind.MISSING else "is not a folder"
            self._add(FILE_MISSING, f"the variant's folder {quoted(directory)} {problem}")
            return None
        names = self._onnx_names(resolved)
        models = [self._resolver.locate(name, base=directory) for name in names[:2]]
        if len(names) == 1 and models[0].kind is PathKind.FILE:
            return ModelPaths(directory=resolved.path, model_path=models[0].path)
        if self._resolver.locate(GENAI_CONFIG, base=directory).kind is PathKind.FILE:
            return ModelPaths(directory=resolved.path, model_path=None)
        if names:
            message = (
                f"the folder {quoted(directory)} holds {len(names)} ONNX files: {listed(names)}"
            )
            self._add(AMBIGUOUS_MODEL_FILE, message)
        else:
            self._add(NO_MODEL_FILE, f"the folder {quoted(directory)} holds no ONNX file")
        return None

    def _onnx_names(self, folder: PathTarget) -> list[str]:
        """Return the names of the ONNX files directly in a folder, sorted; none for a file."""
        if folder.kind is not PathKind.DIRECTORY:
            return []
        return _models_among(self._resolver.files_in(folder.path))

    def _add(self, rule: Rule, message: str, remedy: str = "") -> None:
        self._collector.add(
            rule, self._source.document, message, pointer=self._source.pointer, remedy=remedy
        )


def _models_among(names: list[str]) -> list[str]:
    return [name for name in names if name.lower().endswith(_MODEL_SUFFIX)]
