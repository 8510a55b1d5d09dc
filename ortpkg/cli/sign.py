"""``ortpkg sign``: signs a package with a key, and makes such a key."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ortpkg.authoring.opening import is_packed
from ortpkg.cli.dry_run import operations_for
from ortpkg.cli.package_argument import verify_not_in_store
from ortpkg.cli.parameters import DryRunOption
from ortpkg.cli.rendering import Output
from ortpkg.distribution.package_signing import sign_artifact, sign_package
from ortpkg.foundations.errors import ExitCode, PackageReferenceError, UsageError, quoted
from ortpkg.foundations.storage.file_replacement import replace_file
from ortpkg.package.references.package_references import (
    LayoutReference,
    OciReference,
    PathReference,
    Reference,
    StoreReference,
    parse_reference,
)

if TYPE_CHECKING:
    from ortpkg.package.trust.signing.signing_keys import PrivateKey

_MOST_PASSWORD_NBYTES = 1024


SignedPackageArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="PKG|REF",
        help="A package's directory, or oci://... or oci-layout:... where it is published.",
    ),
]
KeyOption = Annotated[
    Path | None,
    typer.Option("--key", metavar="FILE", help="Your private key, in PEM form."),
]
CertificateOption = Annotated[
    Path | None,
    typer.Option("--certificate", metavar="FILE", help="Certificate of that key, in PEM form."),
]
CertificateChainOption = Annotated[
    Path | None,
    typer.Option(
        "--certificate-chain",
        metavar="FILE",
        help="The certificates between that one and the authority's root.",
    ),
]
PasswordFileOption = Annotated[
    Path | None,
    typer.Option(
        "--password-file",
        metavar="FILE",
        help="File whose first line is the key's password; default: asked for at a terminal.",
    ),
]
NewKeyOption = Annotated[
    Path | None,
    typer.Option(
        "--new-key",
        metavar="FILE",
        help="Make a key there, and the public one beside it (.pub); never written over.",
    ),
]


def command(
    output: Output,
    package: SignedPackageArgument = None,
    key: KeyOption = None,
    certificate: CertificateOption = None,
    certificate_chain: CertificateChainOption = None,
    password_file: PasswordFileOption = None,
    new_key: NewKeyOption = None,
    dry_run: DryRunOption = False,
) -> int:
    """Sign what a package's digests.json records, in the OpenSSF model signing format.

    The signature lies in the package (model.sig), or beside it in the registry. A published package
    is signed without downloading it. Who verifies it: ortpkg verify --signature.
    """
    if new_key is not None:
        if package is not None or key is not None:
            raise UsageError("--new-key makes a key and signs nothing: give it alone")
        _make_key(new_key, password_file, output, is_rehearsal=dry_run)
        return ExitCode.DONE
    if package is None or key is None:
        raise UsageError("name a package and --key FILE; ortpkg sign --new-key FILE makes a key")
    signer = _read_key(key, password_file)
    certificates = _certificates(certificate, certificate_chain)
    signed = _sign(package, signer, certificates, output, is_rehearsal=dry_run)
    if output.is_json:
        output.json("sign", {"dry_run": dry_run, "signed": signed, "key": signer.public.digest})
    else:
        output.note(f"{'would sign' if dry_run else 'signed'} with key {signer.public.digest}")
        output.line(signed)
    return ExitCode.DONE


def _sign(
    package: str,
    signer: PrivateKey,
    certificates: tuple[bytes, ...],
    output: Output,
    *,
    is_rehearsal: bool,
) -> str:
    """Sign a package in place; return the file or the digest that is signed."""
    reference = parse_reference(package)
    if isinstance(reference, OciReference | LayoutReference):
        digest = sign_artifact(
            reference, signer, certificates=certificates, is_rehearsal=is_rehearsal
        )
        return f"{reference.without_version}@{digest}"
    if isinstance(reference, PathReference) and not _is_packed(reference):
        verify_not_in_store(reference.path)
        name = sign_package(
            reference.path,
            signer,
            certificates=certificates,
            notify=output.note,
            operations=operations_for(is_rehearsal),
        )
        return str(reference.path / name)
    raise PackageReferenceError(
        f"{quoted(package)} cannot be signed: {_why_not(reference)}", reference=package
    )


def _is_packed(reference: PathReference) -> bool:
    return reference.is_archive or is_packed(reference.path)


def _why_not(reference: Reference) -> str:
    if isinstance(reference, StoreReference):
        return (
            "what is installed is its publisher's; sign it where it is published (oci://... or"
            f" oci-layout:...), or a copy (ortpkg pull {reference} -o FOLDER)"
        )
    if isinstance(reference, PathReference):
        return "a packed file is not changed; sign the package's directory, and pack that"
    return "a package's directory can be, and oci://... or oci-layout:... where it is published"


def _read_key(file: Path, password_file: Path | None) -> PrivateKey:
    from ortpkg.package.trust.signing.signing_keys import PasswordNeededError, read_private_key

    password = _password_in(password_file)
    try:
        return read_private_key(file, password)
    except PasswordNeededError:
        if not sys.stdin.isatty():
            raise
        typed = typer.prompt(f"password of {file}", hide_input=True, err=True)
        return read_private_key(file, typed.encode())


def _password_in(file: Path | None) -> bytes | None:
    if file is None:
        return None
    try:
        with file.open("rb") as stream:
            line = stream.readline(_MOST_PASSWORD_NBYTES + 2).rstrip(b"\r\n")
    except OSError as error:
        raise UsageError(f"{quoted(file)} cannot be read: {error.strerror}") from error
    if not 0 < len(line) <= _MOST_PASSWORD_NBYTES:
        raise UsageError(
            f"the first line of {quoted(file)} is no password of 1 to {_MOST_PASSWORD_NBYTES} bytes"
        )
    return line


def _certificates(certificate: Path | None, chain: Path | None) -> tuple[bytes, ...]:
    if certificate is None:
        if chain is not None:
            raise UsageError("--certificate-chain is for --certificate: give both")
        return ()
    from ortpkg.package.trust.signing.signing_certificates import read_certificates

    certificates = read_certificates(certificate)
    return (*certificates, *(read_certificates(chain) if chain is not None else ()))


def _make_key(
    file: Path, password_file: Path | None, output: Output, *, is_rehearsal: bool
) -> None:
    from ortpkg.package.trust.signing.signing_keys import new_private_key

    new_key, public = new_private_key(), file.with_name(f"{file.name}.pub")
    password = _password_in(password_file)
    if existing := [path for path in (file, public) if os.path.lexists(path)]:
        raise UsageError(f"{quoted(existing[0])} exists already: a key is never written over")
    if not is_rehearsal:
        content = new_key.pem(password)
        replace_file(file, lambda target: target.write(content), replaces=False, mode=0o600)
        replace_file(public, lambda target: target.write(new_key.public.pem), replaces=False)
    would = "would make" if is_rehearsal else "made"
    if output.is_json:
        output.json(
            "sign",
            {
                "dry_run": is_rehearsal,
                "new_key": str(file),
                "public_key": str(public),
                "key": new_key.public.digest,
            },
        )
        return
    output.note(
        f"{would} {file}: keep it secret"
        + ("" if password else "; it is not encrypted (--password-file FILE encrypts it)")
    )
    output.note("give the public key to those who are to verify what you sign:")
    output.line(public)
