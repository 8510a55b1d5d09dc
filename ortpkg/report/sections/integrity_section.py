"""State of the package's bytes: verified digests, signatures, and compiled contexts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ortpkg.foundations.drawing.svg import shortened
from ortpkg.foundations.errors import OrtpkgError
from ortpkg.foundations.quantities import counted, nbytes_text
from ortpkg.package.integrity.file_states import (
    FileState,
    PackageFileStates,
    VerifiedFile,
    file_states,
)
from ortpkg.report.context_facts import ContextFact, ContextState, context_facts
from ortpkg.report.report_subject import ReportSubject
from ortpkg.report.sections.section import MOST_ROWS, Section, Status, left_out
from ortpkg.report.signature_facts import PackageSignatureFacts, SignatureFact, signature_facts
from ortpkg.report.state_picture import StateShare, state_figure

#: Most bytes that a report hashes unless all are requested.
_MOST_HASHED_NBYTES = 256_000_000
_LONGEST_REASON = 500
#: Rating of each state and the CSS class of its shapes, in the order of the picture.
_STATES: Mapping[FileState, tuple[Status, str]] = {
    FileState.VERIFIED: (Status.GOOD, "ep-2"),
    FileState.KNOWN: (Status.GOOD, "ep-6"),
    FileState.NOT_READ: (Status.PLAIN, "ep-9"),
    FileState.ABSENT: (Status.PLAIN, "ep-7"),
    FileState.CHANGED: (Status.BAD, "ep-5"),
    FileState.MISSING: (Status.BAD, "mark"),
    FileState.EXTRA: (Status.WARN, "ep-4"),
    FileState.UNREADABLE: (Status.BAD, "ep-8"),
}
_CONTEXT_STATUS: Mapping[ContextState, Status] = {
    ContextState.FRESH: Status.GOOD,
    ContextState.AGED: Status.WARN,
    ContextState.STALE: Status.BAD,
    ContextState.UNKNOWN: Status.PLAIN,
    ContextState.BROKEN: Status.BAD,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRow:
    """One file and its state."""

    path: str
    state: str
    status: Status
    size: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureRow:
    """One signature; ``verdict`` is a word or two, ``status`` its rating."""

    where: str
    signer: str
    verdict: str
    status: Status
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRow:
    """One compiled context, and its state on this machine."""

    fact: ContextFact
    status: Status
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegritySection(Section):
    """Digests, signatures and contexts.

    Attributes:
        problem: Reason why no file could be compared, or "".
        facts: Name and value of facts about the package's digests.
        picture: Figure, or "" without files.
        shares: Content of the picture.
        files: Files, those that differ first.
        policy: Sentence on the decision of this machine's trust policy.
        signatures: All signatures.
        contexts: EPContext nodes of the variants that are here.
        left_out: Sentences on what is not shown.
    """

    problem: str
    facts: tuple[tuple[str, str], ...]
    picture: str
    shares: tuple[StateShare, ...]
    files: tuple[FileRow, ...]
    policy: str
    signatures: tuple[SignatureRow, ...]
    contexts: tuple[ContextRow, ...]
    left_out: tuple[str, ...]


def integrity_section(subject: ReportSubject) -> IntegritySection:
    """Return what is verified, signed and stale; a sentence says what cannot be determined."""
    info = subject.info
    states, problem = _states(subject)
    signed = signature_facts(info)
    contexts = context_facts(info, trust=subject.trust)
    ordered = sorted(states.files, key=lambda item: -_badness(_STATES[item.state][0]))
    shares = _shares(states.files)
    return IntegritySection(
        headline="; ".join(
            item
            for item in (_files_text(shares, problem), _signed_text(signed), _stale_text(contexts))
            if item
        ),
        status=_status(shares, problem, signed, contexts),
        problem=problem,
        facts=_facts(states),
        picture=state_figure(shares, name="integrity", title="Bytes by state") if shares else "",
        shares=shares,
        files=tuple(map(_file_row, ordered[:MOST_ROWS])),
        policy=signed.policy,
        signatures=tuple(_signature_row(item, signed) for item in signed.signatures),
        contexts=tuple(map(_context_row, contexts[:MOST_ROWS])),
        left_out=tuple(
            item
            for item in (
                left_out(len(ordered) - MOST_ROWS, "files", "ortpkg verify --json"),
                left_out(len(contexts) - MOST_ROWS, "contexts", "ortpkg validate"),
            )
            if item
        ),
    )


def _states(subject: ReportSubject) -> tuple[PackageFileStates, str]:
    nothing = PackageFileStates(files=(), package_digest="", notes=())
    if subject.info.is_bare_model:
        return nothing, "This is an ONNX file: nothing records what its bytes should be."
    most = None if subject.verifies_all else _MOST_HASHED_NBYTES
    try:
        return file_states(subject.info.root, most_nbytes=most), ""
    except (OrtpkgError, OSError) as error:
        return nothing, shortened(" ".join(str(error).split()), _LONGEST_REASON)


def _shares(files: Sequence[VerifiedFile]) -> tuple[StateShare, ...]:
    shares = []
    for state, (_, kind) in _STATES.items():
        sizes = [file.nbytes for file in files if file.state is state]
        if sizes:
            shares.append(StateShare(state.value, kind, len(sizes), sum(sizes)))
    return tuple(shares)


def _badness(status: Status) -> int:
    return (Status.GOOD, Status.PLAIN, Status.WARN, Status.BAD).index(status)


def _status(
    shares: Sequence[StateShare],
    problem: str,
    signed: PackageSignatureFacts,
    contexts: Sequence[ContextFact],
) -> Status:
    statuses = [_STATES[FileState(share.state)][0] for share in shares]
    statuses += [_CONTEXT_STATUS[item.state] for item in contexts]
    if signed.is_refused:
        statuses.append(Status.BAD)
    if any(item.needs_trust for item in contexts) or any(
        not item.is_current for item in signed.signatures
    ):
        statuses.append(Status.WARN)
    if problem or not shares:
        statuses.append(Status.WARN)
    # Files that were not read on purpose do not lower the rating of the others.
    return max(
        (item for item in statuses if item is not Status.PLAIN), key=_badness, default=Status.PLAIN
    )


def _files_text(shares: Sequence[StateShare], problem: str) -> str:
    if problem or not shares:
        return "Nothing to compare the files with"
    counts = {share.state: share.file_count for share in shares}
    verified = counts.pop(FileState.VERIFIED.value, 0)
    parts = [f"{counted(verified, 'file')} verified"]
    return ", ".join([*parts, *(f"{count} {state}" for state, count in counts.items())])


def _signed_text(signed: PackageSignatureFacts) -> str:
    if not signed.signatures:
        return "refused by the trust policy" if signed.is_refused else "not signed"
    names = dict.fromkeys(
        signature.accepted_as for signature in signed.signatures if signature.accepted_as
    )
    if names:
        return f"signed by {shortened(', '.join(names), 120)}"
    count_text = counted(len(signed.signatures), "signature")
    if all(not signature.is_current for signature in signed.signatures):
        return f"{count_text}, over other files"
    return f"{count_text}, refused" if signed.is_refused else f"{count_text}, of nobody known here"


def _stale_text(contexts: Sequence[ContextFact]) -> str:
    if not contexts:
        return ""
    bad = [
        context
        for context in contexts
        if context.state in {ContextState.STALE, ContextState.BROKEN}
    ]
    if not bad:
        fresh = sum(context.state is ContextState.FRESH for context in contexts)
        return f"{fresh} of {counted(len(contexts), 'context')} fresh"
    return f"{counted(len(bad), 'context')} {bad[0].state}: {shortened(bad[0].reason, 120)}"


def _facts(states: PackageFileStates) -> tuple[tuple[str, str], ...]:
    facts = [("Package digest", states.package_digest)] if states.package_digest else []
    notes = [("Note", shortened(note, _LONGEST_REASON)) for note in states.notes[:8]]
    return (*facts, *notes)


def _file_row(file: VerifiedFile) -> FileRow:
    return FileRow(
        path=file.path,
        state=file.state.value,
        status=_STATES[file.state][0],
        size=nbytes_text(file.nbytes),
        message=shortened(file.message, _LONGEST_REASON),
    )


def _signature_row(fact: SignatureFact, signed: PackageSignatureFacts) -> SignatureRow:
    if fact.accepted_as:
        verdict, status, detail = "accepted", Status.GOOD, f"as {fact.accepted_as}"
    elif not fact.is_current:
        verdict, status = "stale", Status.BAD
        detail = "it is over other files than digests.json records now"
    elif signed.is_judged:
        verdict, status, detail = "not accepted", Status.WARN, "nobody here vouches for that signer"
    else:
        verdict, status, detail = "not judged", Status.PLAIN, "no trust policy says whose it is"
    return SignatureRow(
        where=fact.where,
        signer=shortened(fact.signer, _LONGEST_REASON),
        verdict=verdict,
        status=status,
        detail=shortened(fact.problem or detail, _LONGEST_REASON),
    )


def _context_row(fact: ContextFact) -> ContextRow:
    return ContextRow(
        fact=fact,
        status=_CONTEXT_STATUS[fact.state],
        reason=shortened(fact.reason, _LONGEST_REASON),
    )
