"""``ortpkg inspect --tree``: shows a package as a tree, from its pipeline down to its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ortpkg.authoring.variant_sizes import FilesByVariant, VariantKey, files_by_variant, shared_by
from ortpkg.cli.rendering import nbytes_text
from ortpkg.cli.tree_drawing import TreeNode
from ortpkg.foundations.drawing.svg import shortened, visible
from ortpkg.foundations.ep_names import short_ep_names
from ortpkg.package.formats.pipeline import ComponentStep, Step, check_pipeline
from ortpkg.package.package_info import ComponentInfo, PackageInfo, VariantInfo, version_of

#: Most files of a variant that is a set of files.
_MOST_FILES = 20
_MOST_USERS = 10
_LONGEST_NAME = 120


def package_tree(package: PackageInfo) -> TreeNode:
    """Return the package's pipeline, and its component models in order with variants and files.

    Files that several variants use come last, because they are stored once.
    """
    files = files_by_variant(package)
    shared = {file: item.users for item in shared_by(files) for file in item.files}
    version = f" {package.version}" if package.version else ""
    what = "bare model" if package.is_bare_model else f"{package.format.value} format"
    total = sum({file: size for used in files.values() for file, size in used.items()}.values())
    return TreeNode(
        f"{_name(package.name)}{_name(version)}: {what}, {nbytes_text(total)} of models",
        (
            *_pipeline(package),
            *(_component(item, package, files, shared) for item in package.components),
            *_shared(package, files, shared),
        ),
        style="bold",
    )


def _pipeline(package: PackageInfo) -> Iterator[TreeNode]:
    if not package.has_pipeline:
        return
    pipeline, _ = check_pipeline(package.root, [component.name for component in package.components])
    if pipeline is None:
        yield TreeNode("pipeline: it is not valid; ortpkg validate says why", style="red")
        return
    inputs, outputs = (
        _listed([value.name for value in values]) for values in (pipeline.inputs, pipeline.outputs)
    )
    yield TreeNode(f"pipeline: {inputs} to {outputs}", tuple(map(_step, pipeline.steps)))


def _step(step: Step) -> TreeNode:
    if isinstance(step, ComponentStep):
        inputs, outputs = (_listed(list(names.values())) for names in (step.inputs, step.outputs))
        return TreeNode(f"{_name(step.component)}: {inputs} to {outputs}")
    until = f", until {_name(step.stop.value)} is {step.stop.equals}" if step.stop else ""
    return TreeNode(f"up to {step.times} times{until}", tuple(map(_step, step.steps)))


def _component(
    component: ComponentInfo,
    package: PackageInfo,
    files: FilesByVariant,
    shared: Mapping[Path, Sequence[VariantKey]],
) -> TreeNode:
    variants = (
        _variant(variant, package, files[component.name, variant.name], shared)
        for variant in component.variants
    )
    return TreeNode(f"component model {_name(component.name)}", tuple(variants), style="bold")


def _variant(
    variant: VariantInfo,
    package: PackageInfo,
    used: Mapping[Path, int],
    shared: Mapping[Path, Sequence[VariantKey]],
) -> TreeNode:
    together = sum(size for file, size in used.items() if file in shared)
    own_nbytes = sum(used.values()) - together
    sizes = f"{nbytes_text(own_nbytes)} of its own, {nbytes_text(together)} shared"
    details = [
        *_needs(variant),
        "not here" if variant.is_absent else sizes if together else nbytes_text(own_nbytes),
        *(
            []
            if package.is_bare_model
            else [f"in {_relative_path(variant.directory, package.root)}"]
        ),
    ]
    version = version_of(variant, package)
    named = f" {version}" if version and version != package.version else ""
    here = [
        TreeNode(
            f"{_relative_path(file, variant.directory)}  {nbytes_text(size)}"
            f"{', shared' if file in shared else ''}"
        )
        for file, size in sorted(used.items())
    ]
    return TreeNode(
        f"{_name(variant.name)}{_name(named)}: {'; '.join(details)}",
        _bounded([*here, *_absent_files(variant, package)]),
        style="yellow" if variant.is_absent else "cyan",
    )


def _needs(variant: VariantInfo) -> Iterator[str]:
    """Yield where the variant runs and in which precision, as far as the package says."""
    constraints = variant.constraints
    where = _name(short_ep_names(constraints.ep or "any execution provider"))
    on = f" on {_name(constraints.device)}" if constraints.device else ""
    for_ = f" for {_name(constraints.architecture)}" if constraints.architecture else ""
    yield f"{where}{on}{for_}"
    types = variant.metadata.get("data_types") or ()
    type_names = list(types) if isinstance(types, tuple) else [types]
    if quantization := variant.metadata.get("quantization"):
        type_names.append(quantization)
    if type_names:
        yield _listed(list(map(str, type_names)))


def _absent_files(variant: VariantInfo, package: PackageInfo) -> Iterator[TreeNode]:
    if not variant.is_absent or not variant.directory.is_relative_to(package.root):
        return
    folder = f"{variant.directory.relative_to(package.root).as_posix()}/"
    for path, size in sorted(package.absent_files.items()):
        if path.startswith(folder):
            name = _name(path.removeprefix(folder))
            yield TreeNode(f"{name}  {nbytes_text(size)}, not here", style="yellow")


def _shared(
    package: PackageInfo, files: FilesByVariant, shared: Mapping[Path, Sequence[VariantKey]]
) -> Iterator[TreeNode]:
    if not shared:
        return
    sizes = {file: files[by[0]][file] for file, by in shared.items()}
    lines = [
        TreeNode(f"{_relative_path(file, package.root)}  {nbytes_text(sizes[file])}: {_users(by)}")
        for file, by in sorted(shared.items())
    ]
    yield TreeNode(
        f"what several variants use lies once: {nbytes_text(sum(sizes.values()))}",
        _bounded(lines),
        style="bold",
    )


def _bounded(files: Sequence[TreeNode]) -> tuple[TreeNode, ...]:
    """Return the first lines of files, and the number of further ones."""
    more = len(files) - _MOST_FILES
    return (*files[:_MOST_FILES], *([TreeNode(f"{more} more files")] if more > 0 else []))


def _users(users: Sequence[VariantKey]) -> str:
    named = ", ".join(
        f"{_name(component)}/{_name(variant)}" for component, variant in users[:_MOST_USERS]
    )
    more = len(users) - _MOST_USERS
    return f"{named} and {more} more" if more > 0 else named


def _relative_path(path: Path, folder: Path) -> str:
    """Return a path relative to a folder if it lies inside, else the absolute path."""
    real, around = path.resolve(), folder.resolve()
    return _name(real.relative_to(around).as_posix() if real.is_relative_to(around) else str(real))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(_name, names))


def _name(name: str) -> str:
    """Return an untrusted name on one line."""
    return visible(shortened(name, _LONGEST_NAME))
