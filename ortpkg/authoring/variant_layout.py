"""Lay out the files of each variant in a rewritten package: ``models/<component>/<folder>/``.

Files that lie there already stay. In packages of the component generation a variant may have its
folder anywhere, its model in a shared asset and its weights in a third place; onnxruntime 1.26 and
1.27 find none of these, so they are gathered in one folder. Variants that share a folder go on
sharing it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ortpkg.authoring.variant_files import files_of_model
from ortpkg.foundations.errors import AuthoringError, quoted
from ortpkg.package.formats.executor_info import EXTERNAL_INITIALIZERS_FOLDER, SOURCE_MODEL
from ortpkg.package.formats.metadata_format import MODELS
from ortpkg.package.formats.variant_declarations import OWN_FOLDER
from ortpkg.package.integrity.digest_check import list_files
from ortpkg.package.package_info import ComponentInfo, PackageFormat, PackageInfo, VariantInfo

#: Options that name files of a model; these are gathered if the format lacks the options.
_GATHERED_OPTIONS = (EXTERNAL_INITIALIZERS_FOLDER, SOURCE_MODEL)


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantLayout:
    """Layout of one variant's files in the rewritten package.

    Attributes:
        variant: its name.
        folder: relative to the root.
        model_file: the model, relative to ``folder``; None for a set of files.
        moves: the folder that becomes ``folder`` as a whole; None if it lies there already, or if
            only single files are taken.
        brings: path relative to ``folder`` → file that is copied there from elsewhere: the model,
            its weights.
        takes_files: only ``brings`` is the variant's own.
    """

    variant: str
    folder: str
    model_file: str | None
    moves: Path | None
    brings: Mapping[str, Path]
    takes_files: bool

    @property
    def folder_name(self) -> str:
        """Name of the folder in documents: its path's last part, or "." for the component's own."""
        path = PurePosixPath(self.folder)
        return OWN_FOLDER if path.parent == PurePosixPath(MODELS) else path.name


def lay_out_variants(
    package: PackageInfo, form: PackageFormat
) -> dict[tuple[str, str], VariantLayout]:
    """Map (component, variant) to its layout in a package of the format ``form``.

    Raises:
        AuthoringError: a set of files (GenAI) has no folder of its own, so that its files are
            unknown, or something lies outside of the package.
    """
    gathers = form is not package.format and form is not PackageFormat.COMPONENT
    holding = _holding_folders(package)
    return {
        (component.name, variant.name): _layout(
            package, variant, folder, gathers=gathers, takes_files=variant.directory in holding
        )
        for component in package.components
        for variant, folder in _folders(package, component, holding)
    }


def _folders(
    package: PackageInfo, component: ComponentInfo, holding: Collection[Path]
) -> Iterator[tuple[VariantInfo, str]]:
    """Yield each variant with the name of its folder; variants that share one get the same."""
    base = package.root / MODELS / component.name
    names: dict[Path, str] = {
        variant.directory: variant.directory.name
        for variant in component.variants
        if variant.directory.parent == base and variant.directory not in holding
    }
    used_names = set(names.values())
    sharing = Counter(variant.directory for variant in component.variants)
    for variant in component.variants:
        folder = variant.directory
        if (
            folder == base
        ):  # holds weights that are shared by checksum, and the models that need them
            yield variant, OWN_FOLDER
            continue
        name = variant.name if sharing[folder] == 1 or folder in holding else folder.name
        while folder not in names and name in used_names:
            name += "_"
        if folder not in holding:
            name = names.setdefault(folder, name)
            used_names.add(name)
        yield variant, name


def _holding_folders(package: PackageInfo) -> frozenset[Path]:
    """Return folders that hold documents or variants: a variant in one owns only needed files."""
    documented = {package.root, *(component.directory for component in package.components)}
    folders = {
        variant.directory for component in package.components for variant in component.variants
    }
    above = {parent for folder in documented | folders for parent in folder.parents}
    return frozenset(documented | above)


def _layout(
    package: PackageInfo, variant: VariantInfo, name: str, *, gathers: bool, takes_files: bool
) -> VariantLayout:
    folder = f"{MODELS}/{variant.component_name}" + ("" if name == OWN_FOLDER else f"/{name}")
    if not variant.directory.is_relative_to(package.root):
        raise AuthoringError(
            f"variant {quoted(variant.name)} lies outside of the package, in an installed one"
        )
    if takes_files and variant.model_path is None:
        message = f"variant {quoted(variant.name)} is a set of files in {quoted(variant.directory)}"
        raise AuthoringError(f"{message}, with files of others: nobody can say which are its own")
    model_file, brings = _gathered(variant, takes_files=takes_files, gathers=gathers)
    stays = takes_files or variant.directory == package.root / folder
    return VariantLayout(
        variant=variant.name,
        folder=folder,
        model_file=model_file,
        moves=None if stays else variant.directory,
        brings=brings,
        takes_files=takes_files,
    )


def _gathered(
    variant: VariantInfo, *, takes_files: bool, gathers: bool
) -> tuple[str | None, dict[str, Path]]:
    """Return the model file relative to the variant's folder, and the files to bring there."""
    model = variant.model_path
    if model is None:
        return None, {}
    is_inside = model.is_relative_to(variant.directory)
    model_file = model.relative_to(variant.directory).as_posix() if is_inside else model.name
    option_paths = [variant.session_options.get(key) for key in _GATHERED_OPTIONS if gathers]
    brings_weights = any(
        path and not Path(path).is_relative_to(variant.directory) for path in option_paths
    )
    brings_model = takes_files or (gathers and not is_inside)
    if not (brings_model or brings_weights):
        return model_file, {}
    beside = PurePosixPath(model_file).parent
    brings = {
        (beside / location).as_posix(): path
        for location, path in files_of_model(variant, model).items()
        if gathers or path.is_relative_to(model.parent)
    }
    return model_file, ({model_file: model} if brings_model else {}) | brings


def files_of_layout(package: PackageInfo, location: VariantLayout) -> dict[str, Path]:
    """Map path relative to the layout's folder → the file of ``package`` that goes there."""
    brought = dict(location.brings)
    if location.takes_files:
        return brought
    folder = location.moves or package.root / location.folder
    return {path: folder / path for path in list_files(folder)} | brought
