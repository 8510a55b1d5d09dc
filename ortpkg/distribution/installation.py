"""Installation of packages: ``ortpkg install``, and the steps that ``ortpkg pull`` shares.

The steps are, in this order: manifest, documents, signatures, selection, files of the selected
variants, and then, in one step, the name or folder. Before that step there are only verified blobs.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path

from ortpkg.distribution.fetched_documents import FetchedDocuments, fetched_documents
from ortpkg.distribution.fetching import fetch_layers, missing_layers
from ortpkg.distribution.package_sources import opened_source
from ortpkg.distribution.publisher_check import Vouching, check_documents
from ortpkg.distribution.registry.artifact import PackageFile
from ortpkg.distribution.registry.descriptors import Descriptor
from ortpkg.distribution.store.blob_trees import PackageTree, TreeContent
from ortpkg.distribution.store.generations import Generation, check_name
from ortpkg.distribution.store.leases import Lease
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.distribution.variant_choice import InstallWishes, VariantToFetch, choose_variants
from ortpkg.distribution.wanted_files import wanted_files
from ortpkg.foundations.errors import PackageReferenceError, quoted
from ortpkg.foundations.storage.hashing import Progress, hash_bytes
from ortpkg.package.receipts import Receipt, StoredFile
from ortpkg.package.references.package_references import Reference, StoreReference, parse_reference
from ortpkg.package.trust.publisher_trust import remote_publisher_trust

_NOT_IN_NAMES = re.compile("[^a-z0-9]+")


@dataclass(frozen=True, kw_only=True)
class InstallPlan:
    """Plan of an installation: the variants and files to fetch, and why.

    Attributes:
        fetched: Documents of the package.
        name: Name of the package in the store.
        choices: Selected variants.
        wishes: Options of the selection.
        files: Files that the variants need, without documents, by path.
        missing: Layers that the store does not have.
        vouching: Signatures to install.
        version: Version of the model as the package states it, or "".
    """

    fetched: FetchedDocuments
    name: str
    choices: tuple[VariantToFetch, ...]
    wishes: InstallWishes
    files: Mapping[str, PackageFile]
    missing: tuple[Descriptor, ...]
    vouching: Vouching
    version: str = ""

    @property
    def moving_nbytes(self) -> int:
        """Size of the layers to fetch in bytes, without the documents."""
        return sum(layer.nbytes for layer in self.missing)

    @property
    def nbytes(self) -> int:
        """Size of the files that will be installed, in bytes."""
        return self.full_nbytes - sum(file.nbytes for file in self.content.absent.values())

    @property
    def full_nbytes(self) -> int:
        """Size of all files of the package, in bytes."""
        return sum(file.nbytes for file in self.fetched.digests.files.values())

    def is_in(self, receipt: Receipt) -> bool:
        """Return True if a tree of the same package has all wanted files and just these signatures.

        Further files of the tree do not matter.
        """
        signatures = {
            path: f"sha256:{hash_bytes(content).sha256}"
            for path, content in self.vouching.signatures.items()
        }
        here = {path: receipt.files[path].digest for path in signatures if path in receipt.files}
        return self.files.keys() <= receipt.files.keys() and here == signatures

    @cached_property
    def content(self) -> TreeContent:
        """Content of the package's folder to make."""
        artifact, source = self.fetched.artifact, self.fetched.source
        stored = {
            path: StoredFile(digest=file.layer.digest, nbytes=file.layer.nbytes)
            for path, file in artifact.files.items()
        }
        return TreeContent(
            manifest=source.digest,
            reference=source.reference,
            folder=self.fetched.folder,
            documents=self.fetched.documents,
            files={path: stored[path] for path in self.files},
            absent={path: file for path, file in stored.items() if path not in self.files},
            signatures=self.vouching.signatures,
            blobs=(source.digest, artifact.config.digest, artifact.documents.digest),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallReport:
    """Result of an installation or of a rehearsal.

    Attributes:
        plan: What was selected, and why.
        generation: The installation; None for a rehearsal.
        moved_nbytes: Size of the layers that were fetched; 0 if all existed.
    """

    plan: InstallPlan
    generation: Generation | None
    moved_nbytes: int


def install(
    reference: str | PathLike[str],
    *,
    name: str | None = None,
    wishes: InstallWishes | None = None,
    store: PackageStore | None = None,
    trust_policy: Path | None = None,
    is_rehearsal: bool = False,
    on_plan: Callable[[InstallPlan], object] | None = None,
    progress: Progress | None = None,
) -> InstallReport:
    """Install a package in the store: its documents, and the files of the selected variants.

    Args:
        reference: ``oci://host/repository:tag``, ``oci-layout:FOLDER``, a folder, or a packed file.
        name: Name in the store; default: the repository's name, or the package's own.
        wishes: What to fetch; default: what this machine runs best.
        store: Target; default: the user's store.
        trust_policy: File of the trust policy; default: the one that applies here.
        is_rehearsal: True to fetch only the documents and install nothing.
        on_plan: Called with the plan before anything else is fetched.
        progress: Called with (source, bytes done, bytes in all).

    Raises:
        SignatureError: The trust policy refuses the package.
        NoSuitableVariantError: No variant fits the machine.
        ArtifactFormatError: The artifact is not a valid package or contradicts itself.
        LayerMismatchError: The content does not have the requested digest.
        RegistryError: The registry failed.
        StoreError: The store cannot be used.
    """
    store = store or PackageStore()
    parsed = parse_reference(reference)
    if isinstance(parsed, StoreReference):
        raise PackageReferenceError(
            f"{quoted(str(parsed))} is a name, and no place to install from: give"
            " oci://host/repository[:tag], oci-layout:FOLDER[:tag], a package's folder"
            f" ({quoted(f'./{parsed.name}')}) or a packed file (name.ortpkg)",
            reference=str(parsed),
        )
    with planned(parsed, name, wishes, store, progress, trust_policy) as plan:
        if on_plan is not None:
            on_plan(plan)
        if is_rehearsal:
            return InstallReport(plan=plan, generation=None, moved_nbytes=0)
        return install_planned(plan, store, progress)


def install_planned(
    plan: InstallPlan, store: PackageStore, progress: Progress | None = None
) -> InstallReport:
    """Fetch what is missing and put it in use under the plan's name."""
    content = plan.content
    with store.hold(trees=[content.key], digests=content.all_blobs):
        moved = fetch_planned(plan, store, progress)
        generation = store.install(
            plan.name,
            content,
            tag=plan.fetched.source.tag,
            variants=tuple(choice.name for choice in plan.choices),
            why="; ".join(f"{choice.name} {choice.why}" for choice in plan.choices),
            asked=plan.wishes.words,
            model_version=plan.version,
        )
    return InstallReport(plan=plan, generation=generation, moved_nbytes=moved)


def make_planned(
    plan: InstallPlan, store: PackageStore, progress: Progress | None = None
) -> tuple[PackageTree, Lease]:
    """Fetch what is missing and make a tree without a name; the lease protects it."""
    content = plan.content
    lease = store.hold(trees=[content.key], digests=content.all_blobs)
    try:
        fetch_planned(plan, store, progress)
        return store.make_tree(content), lease
    except BaseException:
        lease.release()
        raise


@contextlib.contextmanager
def planned(
    reference: Reference,
    name: str | None,
    wishes: InstallWishes | None,
    store: PackageStore,
    progress: Progress | None,
    trust_policy: Path | None = None,
) -> Iterator[InstallPlan]:
    """Plan an installation; the source stays readable in this context.

    ``name`` is the name in the store. See :func:`install` for the arguments and the errors.
    """
    wishes = wishes or InstallWishes()
    if name is not None:
        check_name(name)
    with (
        opened_source(reference, store, progress=progress) as source,
        fetched_documents(source, store) as fetched,
    ):
        store_name = name or _name_of(fetched)
        vouching = check_documents(fetched, store_name, trust_policy)
        with fetched.opened() as package:
            version = package.version or ""
            choices = choose_variants(
                package, wishes, lambda: remote_publisher_trust(fetched.signed, trust_policy)
            )
            files = wanted_files(
                fetched.artifact,
                package,
                frozenset(item.name for item in choices),
                samples=wishes.samples or wishes.all_variants,
            )
        yield InstallPlan(
            fetched=fetched,
            name=store_name,
            choices=choices,
            wishes=wishes,
            files=files,
            missing=tuple(missing_layers((item.layer for item in files.values()), store)),
            vouching=vouching,
            version=version,
        )


def fetch_planned(plan: InstallPlan, store: PackageStore, progress: Progress | None) -> int:
    """Fetch the files of the selected variants; return the number of bytes received."""
    source = plan.fetched.source
    return fetch_layers(
        (file.layer for file in plan.files.values()), source, store, progress=progress
    )


def _name_of(fetched: FetchedDocuments) -> str:
    """Return the store name of a package whose user gives none."""
    name = fetched.source.name or _NOT_IN_NAMES.sub("-", fetched.artifact.name.lower()).strip("-")
    try:
        return check_name(name)
    except PackageReferenceError as error:
        raise PackageReferenceError(
            f"{quoted(fetched.source.reference)} tells no name for the store: give it one with"
            " --name",
            reference=fetched.source.reference,
        ) from error
