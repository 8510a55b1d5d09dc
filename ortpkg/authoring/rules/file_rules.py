"""Rules ORT3xx: names that every operating system accepts; ORT4xx: digests of files."""

from __future__ import annotations

from ortpkg.foundations.documents.document_rules import Rule
from ortpkg.foundations.errors import Severity
from ortpkg.package.rules import COMPONENT_FORMATS

FILE_NAME = Rule(
    id="ORT301",
    title="File names work on Linux, macOS and Windows",
    explanation=(
        "The package cannot be copied to, packed for or checked out on another operating system."
    ),
    remedy="rename the file, and what refers to it",
    example="aux.txt, notes., a:b, a\\b",
)
NAMES_COLLIDE = Rule(
    id="ORT302",
    title="Names differ in more than case and composition",
    explanation=(
        "Windows and macOS take the two names for one (upper and lower case, composed and"
        " decomposed letters), so that one file overwrites the other, or one variant is found under"
        " the other's name."
    ),
    remedy="rename one of the two",
    example='the variants "CPU" and "cpu", the files é.bin in both Unicode forms',
)
PATH_LONG = Rule(
    id="ORT303",
    title="Paths leave room for where the package lies",
    explanation=(
        "Windows programs stop at 260 characters for a whole path, with the folder that the package"
        " lies in."
    ),
    remedy="use shorter names",
    example="a path of more than 200 characters below the package's root",
    severity=Severity.WARNING,
)

# --- ORT4xx: digests ------------------------------------------------------------------------------

FILE_CHANGED = Rule(
    id="ORT401",
    title="A file is as it was recorded",
    explanation=(
        "The file's SHA-256 is not the one in digests.json: it was damaged or edited since it was"
        " recorded."
    ),
    remedy=(
        "restore the file (ortpkg verify --repair-from OTHER); if it was edited on purpose, ortpkg"
        " verify --record"
    ),
    example="a byte of model.onnx was flipped by a bad disk",
)
FILE_LOST = Rule(
    id="ORT402",
    title="A recorded file is there",
    explanation="digests.json records a file that is not in the package.",
    remedy="restore the file, or remove and add its variant again",
    example="models/m/v/weights.bin was deleted",
)
FILE_UNREADABLE = Rule(
    id="ORT403",
    title="A recorded file can be read",
    explanation=(
        "The file's bytes cannot be compared with digests.json: it cannot be read, or is not a"
        " regular file."
    ),
    remedy="correct its permissions, or put a plain file there",
    example="model.onnx was replaced by a symbolic link",
)
FILE_NOT_RECORDED = Rule(
    id="ORT404",
    title="Every file is recorded",
    explanation="A file is not in digests.json, so that nobody will notice when it is damaged.",
    remedy="remove it, or record the package anew with ortpkg verify --record",
    example="notes.txt was put into the package by hand",
    severity=Severity.WARNING,
)
NO_DIGESTS = Rule(
    id="ORT405",
    title="The package has digests",
    explanation="There is no digests.json, so that nobody can tell whether a file was damaged.",
    remedy="ortpkg verify --record writes it, and so does any authoring command",
    example="a package as onnxruntime's own tools make it",
    severity=Severity.WARNING,
)
CHANGE_INTERRUPTED = Rule(
    id="ORT406",
    title="No change is unfinished",
    explanation=(
        "A command was interrupted. The package is valid as it is; it holds files that nothing"
        " refers to until the next authoring command has tidied up."
    ),
    remedy="run the command again, or any other authoring command",
    example="ortpkg add-variant was killed",
    severity=Severity.WARNING,
)
ASSET_CHANGED = Rule(
    id="ORT407",
    title="A shared asset holds what its digest says",
    explanation=(
        "The name of a shared asset, sha256:<digest>, is the digest of its content, and the content"
        " has another one: it was damaged or edited. Readers open and run such a package with"
        " whatever is there."
    ),
    remedy=(
        "restore the folder; if it was edited on purpose, name it by its digest, also where"
        " variants refer to it"
    ),
    example="shared_assets/sha256-9f86.../weights.bin was replaced",
    formats=COMPONENT_FORMATS,
)
