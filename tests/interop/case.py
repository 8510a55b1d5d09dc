"""One case of the interop tables: a package, a question, and each release's answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.interop.packages import Link, Tree, inline
from tests.interop.protocol import Eps, Reference, Stage

WITH_AZURE = Eps(appended=("AZURE",))
CPU_DEVICE = Eps(devices_of=("CPUExecutionProvider",))
PREFER_CPU = Eps(policy=1)

METADATA_LINES = range(26, 28)
COMPONENT_LINES = range(28, 33)
EXPERIMENTAL_LINES = range(28, 31)
STABLE_LINES = range(31, 33)
LINES_UP_TO_1_31 = range(28, 32)
LINES_FROM_1_32 = range(32, 33)


@dataclass(frozen=True, slots=True)
class Refused:
    """The release ends with an error status: its stage, part of its message, its code."""

    text: str
    stage: Stage = Stage.OPEN
    code: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A row of a table: our reading of upstream, which the tests hold against releases.

    Attributes:
        id: unique; begins with the rows of upstream's own tests that it restates, if any (C12, A4).
        says: what upstream does here, in a sentence.
        tree: the package.
        lines: the release lines (minor versions of 1.x) that this holds for.
        component: the one to select; None only opens the package.
        eps: the execution providers asked for; none means CPU.
        own_options: session options of the caller; None leaves the package's.
        session: whether to make and run a session.
        refused: how it ends early; None if it does not.
        variant, directory: what is selected (the directory relative to the package, "/" between);
            None is not checked.
        offset: of the model that ran; None is not checked.
        posix_names: whether names or paths in it mean another thing on Windows.
        references: each with the path that it stands for, relative to the package, or the
            :class:`Refused`.
    """

    id: str
    says: str
    tree: Tree
    lines: range = COMPONENT_LINES
    component: str | None = None
    eps: Eps = field(default_factory=Eps)
    own_options: Mapping[str, str] | None = None
    session: bool = False
    refused: Refused | None = None
    variant: str | None = None
    directory: str | None = None
    offset: float | None = None
    references: tuple[tuple[Reference, str | Refused], ...] = ()
    posix_names: bool = False

    @property
    def needs_posix(self) -> bool:
        """Whether it is for Linux and macOS alone: by symbolic links or ``posix_names``."""
        return self.posix_names or any(isinstance(content, Link) for content in self.tree.values())


def variants(body: Mapping[str, Any], **more: Any) -> Tree:
    """A package with the inline component ``c`` and a directory for nothing."""
    return {"manifest.json": inline(body, **more)}


def one_variant(**keys: Any) -> Tree:
    """A package with the one variant ``v`` of inline component ``c``: these keys only."""
    return variants({"v": keys})
