"""Read genai_config.json of a GenAI variant, and find the files that it names.

onnxruntime-genai reads the file in the variant's folder and takes names of models relative to that
folder; the tokenizer's folder may be a shared asset too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ortpkg.foundations.documents.finding_collector import json_pointer
from ortpkg.foundations.documents.json_documents import read_document
from ortpkg.foundations.errors import Finding, PackageFormatError, PathEscapesPackageError
from ortpkg.package.formats.model_search import GENAI_CONFIG
from ortpkg.package.package_info import PackageInfo, VariantInfo
from ortpkg.package.paths.asset_reference import parse_asset_reference
from ortpkg.package.paths.disk_places import PathKind
from ortpkg.package.paths.path_resolver import PathResolver

_MOST_FILE_NAMES = 1000
_FILE_NAME = "filename"
_TOKENIZER_FOLDER = "tokenizer_dir"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFile:
    """File or folder that genai_config.json names.

    Attributes:
        pointer: JSON pointer to the name.
        name: as written.
        path: absolute; None if it does not exist, or is not in the package.
        is_model: True for an ONNX file, False for a folder.
    """

    pointer: str
    name: str
    path: Path | None
    is_model: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GenaiConfig:
    """Content of genai_config.json: the files that it names, or what is wrong with it.

    ``document`` is its name in findings.
    """

    document: str
    files: tuple[NamedFile, ...] = ()
    findings: tuple[Finding, ...] = ()


def read_genai_config(package: PackageInfo, variant: VariantInfo) -> GenaiConfig:
    """Read the variant's genai_config.json; ``findings`` report an unreadable one."""
    path = variant.directory / GENAI_CONFIG
    inside = path.is_relative_to(package.root)
    document = path.relative_to(package.root).as_posix() if inside else path.as_posix()
    try:
        config = read_document(path, document=document)
    except PackageFormatError as error:
        return GenaiConfig(document=document, findings=error.findings)
    resolver = PathResolver(package.root if inside else variant.directory)
    base = variant.directory.relative_to(resolver.root).as_posix() if inside else ""
    files = []
    for pointer, name in list(_names(config.get("model"), "/model"))[:_MOST_FILE_NAMES]:
        is_model = pointer.endswith(_FILE_NAME)
        kind = PathKind.FILE if is_model else PathKind.DIRECTORY
        resolved = _resolve(package, resolver, base, name, kind)
        files.append(NamedFile(pointer=pointer, name=name, path=resolved, is_model=is_model))
    return GenaiConfig(document=document, files=tuple(files))


def genai_models(package: PackageInfo, variant: VariantInfo) -> list[Path]:
    """Return the existing ONNX files that the variant's genai_config.json names, each once."""
    if not (variant.directory / GENAI_CONFIG).is_file():
        return []
    named = read_genai_config(package, variant).files
    return list(
        dict.fromkeys(file.path for file in named if file.is_model and file.path is not None)
    )


def _resolve(
    package: PackageInfo, resolver: PathResolver, base: str, name: str, kind: PathKind
) -> Path | None:
    asset = parse_asset_reference(name)
    try:
        if asset is None:
            resolved = resolver.resolve(name, base="" if base == "." else base)
        else:
            folder = next(
                (shared.path for shared in package.shared_assets if shared.uri == asset.uri), None
            )
            if folder is None:
                return None
            resolved = PathResolver(folder).resolve(asset.tail or ".")
    except PathEscapesPackageError:
        return None
    return resolved.path if resolved.kind is kind else None


def _names(value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    """Yield (pointer, name) of the models and the tokenizer folder in genai_config.json."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(inner, str):
                if key == _FILE_NAME or (key == _TOKENIZER_FOLDER and inner):
                    yield f"{pointer}/{key}", inner
            else:
                yield from _names(inner, pointer + json_pointer(key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _names(inner, f"{pointer}/{index}")
