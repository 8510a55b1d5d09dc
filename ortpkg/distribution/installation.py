"""``ortpkg install`` and ``ortpkg pull``: of a package elsewhere, what a machine needs.

In this order: the manifest, the documents, what vouches for it, the choice, the files of what was
chosen, and then, in one step, the name or the folder. Until that step nothing is there but blobs
that verified.
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
from ortpkg.distribution.variant_choice import ChosenVariant, InstallWishes, choose_variants
from ortpkg.distribution.wanted_files import wanted_files
from ortpkg.errors import PackageReferenceError, quoted
from ortpkg.registry.artifact import PackageFile
from ortpkg.registry.descriptors import Descriptor
from ortpkg.registry.references import Reference, StoreReference, parse_reference
from ortpkg.storage.hashing import Progress, hash_bytes
from ortpkg.store.generations import Generation, check_name
from ortpkg.store.leases import Lease
from ortpkg.store.package_store import PackageStore
from ortpkg.store.package_trees import PackageTree, TreeContent
from ortpkg.store.receipts import Receipt, StoredFile
from ortpkg.trust.publisher_trust import publisher_trust_of

_NOT_OF_A_NAME = re.compile("[^a-z0-9]+")


@dataclass(frozen=True, kw_only=True)
class InstallPlan:
    """Plan of an installation: the variants and files to fetch, and why.

    Attributes:
        fetched: its documents.
        name: what it will be called in the store.
        choices: the variants.
        wishes: by which they were chosen.
        files: path → the files that they need, documents aside.
        missing: layers that the store has not.
        vouching: whose signatures come along.
        version: of the model, as the package states it; "" where it states none.
    """

    fetched: FetchedDocuments
    name: str
    choices: tuple[ChosenVariant, ...]
    wishes: InstallWishes
    files: Mapping[str, PackageFile]
    missing: tuple[Descriptor, ...]
    vouching: Vouching
    version: str = ""

    @property
    def moving_nbytes(self) -> int:
        """Bytes of the layers that are going to be fetched; the documents are here already."""
        return sum(layer.nbytes for layer in self.missing)

    @property
    def nbytes(self) -> int:
        """Bytes of the files that will be here."""
        return self.full_nbytes - sum(each.nbytes for each in self.content.absent.values())

    @property
    def full_nbytes(self) -> int:
        """Bytes of all files that the package has."""
        return sum(each.nbytes for each in self.fetched.digests.files.values())

    def is_in(self, receipt: Receipt) -> bool:
        """Whether a tree of the same package has all files that are wanted, and these signatures.

        What else it has does not matter.
        """
        signatures = {
            path: f"sha256:{hash_bytes(content).sha256}"
            for path, content in self.vouching.signatures.items()
        }
        here = {path: receipt.files[path].digest for path in signatures if path in receipt.files}
        return self.files.keys() <= receipt.files.keys() and here == signatures

    @cached_property
    def content(self) -> TreeContent:
        """The package's folder as it will be."""
        artifact, source = self.fetched.artifact, self.fetched.source
        stored = {
            path: StoredFile(digest=each.layer.digest, nbytes=each.layer.nbytes)
            for path, each in artifact.files.items()
        }
        return TreeContent(
            manifest=source.digest,
            reference=source.reference,
            folder=self.fetched.folder,
            documents=self.fetched.documents,
            files={path: stored[path] for path in self.files},
            absent={path: each for path, each in stored.items() if path not in self.files},
            signatures=self.vouching.signatures,
            blobs=(source.digest, artifact.config.digest, artifact.documents.digest),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallReport:
    """What was installed, or would be.

    Attributes:
        plan: what was chosen, and why.
        generation: the installation; None for a rehearsal.
        moved_nbytes: bytes of layers that came; 0 where all was here.
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
    """Installs a package in the store: its documents, and the files of the variants it chooses.

    Args:
        reference: ``oci://host/repository:tag``, ``oci-layout:FOLDER``, a folder, a packed file.
        name: what it is called in the store; left out: as its repository, or as it calls itself.
        wishes: what is to be fetched; left out: what this machine runs best.
        store: where to; left out, the user's.
        trust_policy: the file that says who may publish what; left out, the one that holds here.
        is_rehearsal: fetches the documents alone, and installs nothing.
        on_plan: told what is going to be fetched, before it is.
        progress: called with (where from, bytes done, bytes in all).

    Raises:
        SignatureError: the trust policy refuses it.
        NoSuitableVariantError: nothing fits the machine.
        ArtifactFormatError: what the registry has is no package, or contradicts itself.
        LayerMismatchError: what came is something else than was asked for.
        RegistryError: the registry failed. StoreError: the store cannot be used.
    """
    store = store or PackageStore()
    parsed = parse_reference(reference)
    if isinstance(parsed, StoreReference):
        raise PackageReferenceError(
            f"{quoted(str(parsed))} is a name in the store, and no place to install from: that is"
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
    """Fetches what is missing, and makes it what the plan's name means."""
    content = plan.content
    with store.hold(trees=[content.key], digests=content.all_blobs):
        moved = fetch_planned(plan, store, progress)
        generation = store.install(
            plan.name,
            content,
            tag=plan.fetched.source.tag,
            variants=tuple(each.name for each in plan.choices),
            why="; ".join(f"{each.name} {each.why}" for each in plan.choices),
            asked=plan.wishes.words,
            model_version=plan.version,
        )
    return InstallReport(plan=plan, generation=generation, moved_nbytes=moved)


def make_planned(
    plan: InstallPlan, store: PackageStore, progress: Progress | None = None
) -> tuple[PackageTree, Lease]:
    """Fetches what is missing, and makes a folder that no name means, kept by the lease."""
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
    """What is to be fetched of a package; the source can be read as long as this lasts.

    ``name``: what it shall be called in the store. Raises as :func:`install`.
    """
    wishes = wishes or InstallWishes()
    if name is not None:
        check_name(name)
    with (
        opened_source(reference, store, progress=progress) as source,
        fetched_documents(source, store) as fetched,
    ):
        called = name or _name_of(fetched)
        vouching = check_documents(fetched, called, trust_policy)
        with fetched.opened() as package:
            version = package.version or ""
            choices = choose_variants(
                package, wishes, lambda: publisher_trust_of(fetched.signed, trust_policy)
            )
            files = wanted_files(
                fetched.artifact,
                package,
                frozenset(each.name for each in choices),
                samples=wishes.samples or wishes.all_variants,
            )
        yield InstallPlan(
            fetched=fetched,
            name=called,
            choices=choices,
            wishes=wishes,
            files=files,
            missing=tuple(missing_layers((each.layer for each in files.values()), store)),
            vouching=vouching,
            version=version,
        )


def fetch_planned(plan: InstallPlan, store: PackageStore, progress: Progress | None) -> int:
    """Fetches the files of what was chosen."""
    source = plan.fetched.source
    return fetch_layers(
        (each.layer for each in plan.files.values()), source, store, progress=progress
    )


def _name_of(fetched: FetchedDocuments) -> str:
    """What a package is called in the store where its user does not say."""
    name = fetched.source.name or _NOT_OF_A_NAME.sub("-", fetched.artifact.name.lower()).strip("-")
    try:
        return check_name(name)
    except PackageReferenceError as error:
        raise PackageReferenceError(
            f"{quoted(fetched.source.reference)} tells no name for the store: give it one with"
            " --name",
            reference=fetched.source.reference,
        ) from error
