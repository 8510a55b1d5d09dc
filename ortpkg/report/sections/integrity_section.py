"""What is known of the bytes: digests that were compared, signatures, compiled contexts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ortpkg.drawing.svg import shortened
from ortpkg.errors import OrtpkgError
from ortpkg.package.integrity.file_states import FileState, FileStates, StatedFile, file_states
from ortpkg.quantities import counted, nbytes_text
from ortpkg.report.context_facts import ContextFact, ContextState, context_facts
from ortpkg.report.report_subject import ReportSubject
from ortpkg.report.sections.section import MOST_ROWS, Section, Status, left_out
from ortpkg.report.signature_facts import SignatureFact, SignatureFacts, signature_facts
from ortpkg.report.state_picture import StateShare, state_figure

#: How much a report hashes where not everything was asked for.
_MOST_HASHED_NBYTES = 256_000_000
_LONGEST_REASON = 500
#: How good a state is, and the class of its shapes; in the order of the picture.
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
    """One signature; ``verdict`` is a word or two, ``status`` how good that is."""

    where: str
    signer: str
    verdict: str
    status: Status
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRow:
    """One compiled context, and whether it fits this machine."""

    fact: ContextFact
    status: Status
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegritySection(Section):
    """Digests and contexts.

    Attributes:
        problem: why no file could be compared; "" where some were.
        facts: (what, value) of the package's digests.
        picture: a figure; "" where there is no file.
        shares: what the picture shows.
        files: those that differ first.
        policy: what this machine's trust policy says, a sentence.
        signatures: each of them.
        contexts: each EPContext node of the variants that are here.
        left_out: the sentences on what is not shown.
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
    """What is verified, signed and stale. What cannot be found out is a sentence in it."""
    info = subject.info
    states, problem = _states(subject)
    signed = signature_facts(info)
    contexts = context_facts(info, trust=subject.trust)
    ordered = sorted(states.files, key=lambda each: -_badness(_STATES[each.state][0]))
    shares = _shares(states.files)
    return IntegritySection(
        headline="; ".join(
            each
            for each in (_files_text(shares, problem), _signed_text(signed), _stale_text(contexts))
            if each
        ),
        status=_status(shares, problem, signed, contexts),
        problem=problem,
        facts=_facts(states),
        picture=state_figure(shares, name="integrity", title="Bytes by state") if shares else "",
        shares=shares,
        files=tuple(map(_file_row, ordered[:MOST_ROWS])),
        policy=signed.policy,
        signatures=tuple(_signature_row(each, signed) for each in signed.signatures),
        contexts=tuple(map(_context_row, contexts[:MOST_ROWS])),
        left_out=tuple(
            each
            for each in (
                left_out(len(ordered) - MOST_ROWS, "files", "ortpkg verify --json"),
                left_out(len(contexts) - MOST_ROWS, "contexts", "ortpkg validate"),
            )
            if each
        ),
    )


def _states(subject: ReportSubject) -> tuple[FileStates, str]:
    nothing = FileStates(files=(), package_digest="", notes=())
    if subject.info.is_bare_model:
        return nothing, "This is an ONNX file: nothing records what its bytes should be."
    most = None if subject.verifies_all else _MOST_HASHED_NBYTES
    try:
        return file_states(subject.info.root, most_nbytes=most), ""
    except (OrtpkgError, OSError) as error:
        return nothing, shortened(" ".join(str(error).split()), _LONGEST_REASON)


def _shares(files: Sequence[StatedFile]) -> tuple[StateShare, ...]:
    shares = []
    for state, (_, kind) in _STATES.items():
        own = [each.nbytes for each in files if each.state is state]
        if own:
            shares.append(StateShare(state.value, kind, len(own), sum(own)))
    return tuple(shares)


def _badness(status: Status) -> int:
    return (Status.GOOD, Status.PLAIN, Status.WARN, Status.BAD).index(status)


def _status(
    shares: Sequence[StateShare],
    problem: str,
    signed: SignatureFacts,
    contexts: Sequence[ContextFact],
) -> Status:
    found = [_STATES[FileState(share.state)][0] for share in shares]
    found += [_CONTEXT_STATUS[each.state] for each in contexts]
    if signed.is_refused:
        found.append(Status.BAD)
    if any(each.needs_trust for each in contexts) or any(
        not each.is_current for each in signed.signatures
    ):
        found.append(Status.WARN)
    if problem or not shares:
        found.append(Status.WARN)
    # What was left unread on purpose does not make less of what was read.
    return max(
        (each for each in found if each is not Status.PLAIN), key=_badness, default=Status.PLAIN
    )


def _files_text(shares: Sequence[StateShare], problem: str) -> str:
    if problem or not shares:
        return "Nothing to compare the files with"
    counts = {share.state: share.file_count for share in shares}
    verified = counts.pop(FileState.VERIFIED.value, 0)
    said = [f"{counted(verified, 'file')} verified"]
    return ", ".join([*said, *(f"{count} {state}" for state, count in counts.items())])


def _signed_text(signed: SignatureFacts) -> str:
    if not signed.signatures:
        return "refused by the trust policy" if signed.is_refused else "not signed"
    names = dict.fromkeys(each.accepted_as for each in signed.signatures if each.accepted_as)
    if names:
        return f"signed by {shortened(', '.join(names), 120)}"
    said = counted(len(signed.signatures), "signature")
    if all(not each.is_current for each in signed.signatures):
        return f"{said}, over other files"
    return f"{said}, refused" if signed.is_refused else f"{said}, of nobody known here"


def _stale_text(contexts: Sequence[ContextFact]) -> str:
    if not contexts:
        return ""
    bad = [each for each in contexts if each.state in {ContextState.STALE, ContextState.BROKEN}]
    if not bad:
        fresh = sum(each.state is ContextState.FRESH for each in contexts)
        return f"{fresh} of {counted(len(contexts), 'context')} fresh"
    return f"{counted(len(bad), 'context')} {bad[0].state}: {shortened(bad[0].reason, 120)}"


def _facts(states: FileStates) -> tuple[tuple[str, str], ...]:
    facts = [("Package digest", states.package_digest)] if states.package_digest else []
    notes = [("Note", shortened(each, _LONGEST_REASON)) for each in states.notes[:8]]
    return (*facts, *notes)


def _file_row(file: StatedFile) -> FileRow:
    return FileRow(
        path=file.path,
        state=file.state.value,
        status=_STATES[file.state][0],
        size=nbytes_text(file.nbytes),
        message=shortened(file.message, _LONGEST_REASON),
    )


def _signature_row(fact: SignatureFact, signed: SignatureFacts) -> SignatureRow:
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
