"""Resolve every path that a package names to a real path inside the package, or refuse it.

This is the only place that decides, by two checks. First the text (``path_text``): relative, ``/``
between names, and names that every supported operating system can hold. Then the disk
(``disk_places``): symbolic links (and Windows' other reparse points) are followed, and must lead to
a place inside the package's real root.

By the rules of a release of onnxruntime a path is judged like its ``ResolvePath`` does: relative,
without a segment ``..``, and inside the package once all links are followed; a path that does not
exist is judged by the part of it that does. If paths out of the package are allowed, it may be
anything.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple, Protocol

from ortpkg.foundations.documents.document_rules import Rule
from ortpkg.foundations.documents.finding_collector import finding
from ortpkg.foundations.errors import Finding, PathEscapesPackageError, quoted
from ortpkg.package.paths.disk_places import (
    PathKind,
    follow_links,
    followed_or_as_it_is,
    is_inside,
    is_link,
    kind_at,
    kind_of,
    list_names,
    real_as_far_as_it_exists,
)
from ortpkg.package.paths.path_text import why_not_a_name, why_not_a_path, why_not_portable
from ortpkg.package.rules import PATH_EMPTY, PATH_ESCAPES, PATH_NOT_PORTABLE

_IS_WINDOWS = os.name == "nt"


class PathTarget(NamedTuple):
    """Target of a path: an absolute path without symbolic links, and the kind of file there.

    The path is text, as there are many of them.
    """

    path: str
    kind: PathKind


class ResolvedPath(NamedTuple):
    """Target of a path, as a ``pathlib.Path``, and the kind of file there."""

    path: Path
    kind: PathKind


class Absences(Protocol):
    """Files of a package that this copy of it lacks (``package/integrity/absent_files.py``)."""

    def kind_at(self, path: str) -> PathKind:
        """Return the kind that ``path`` would have if no file were absent; MISSING for none."""

    def files_beside(self, present: Collection[str], directory: str) -> list[str]:
        """Return names of absent files directly in ``directory``, whose files are ``present``."""


class PathRefusedError(PathEscapesPackageError):
    """Path of a package that may not be used; has the rule that it breaks, and the reason."""

    def __init__(self, rule: Rule, reason: str, remedy: str, *, reference: str, root: Path) -> None:
        message = f"path {quoted(reference)} {reason}: {remedy}"
        super().__init__(message, reference=reference, path=root)
        self.rule = rule
        self.reason = reason

    def finding(self, document: str, *, pointer: str = "") -> Finding:
        """Return the finding with the same meaning for ``document``, which names the path."""
        message = f"path {quoted(self.reference)} {self.reason}"
        return finding(self.rule, document, message, pointer=pointer)


class PathResolver:
    """Resolver of the references in one package.

    Each path is looked at once and remembered: use a new resolver each time a package is opened.

    Args:
        root: of the package.
        portable_names: use the strict rules; otherwise those of a release of onnxruntime.
        is_confined: paths must stay in the package.
        absences: files that count as present although they are not; None for none.

    Attributes:
        root, real_root: the real path of the package root, as a path and as text.
    """

    __slots__ = (
        "_absences",
        "_accepted",
        "_is_confined",
        "_looked_at",
        "_portable_names",
        "real_root",
        "root",
    )

    def __init__(
        self,
        root: Path | str,
        *,
        portable_names: bool = True,
        is_confined: bool = True,
        absences: Absences | None = None,
    ) -> None:
        self.real_root = followed_or_as_it_is(root)
        self.root = Path(self.real_root)
        self._portable_names = portable_names
        self._is_confined = is_confined
        self._absences = absences
        self._looked_at: dict[str, PathTarget] = {}
        self._accepted: set[str] = set()  # nearly all variants name the same file in their folders

    def resolve(self, reference: str, *, base: str = "") -> ResolvedPath:
        """Resolve like :meth:`locate`; return a ``pathlib.Path``."""
        path, kind = self.locate(reference, base=base)
        return ResolvedPath(Path(path), kind)

    def locate(self, reference: str, *, base: str = "") -> PathTarget:
        """Return the place of ``reference``, which is relative to ``base``; it need not exist.

        Args:
            reference: as the package states it.
            base: a directory relative to the root, with ``/``; "" is the root. It is trusted to be
                portable.

        Raises:
            PathRefusedError: the path may not be used.
        """
        self._check_text(reference, is_confined=True)
        whole = f"{base}/{reference}" if base else reference
        return self._walk(self.real_root, whole.split("/"), self.real_root, reference)

    def locate_in(self, folder: str, reference: str, *, within: str | None = None) -> PathTarget:
        """Return the place of ``reference``, which is relative to ``folder``; it need not exist.

        Unlike in :meth:`locate`, a file's name followed by ``/`` is MISSING.

        Args:
            folder: an absolute path with links followed.
            reference: as the package states it.
            within: a folder, with links followed, that the path must stay in, even if paths may
                leave the package.

        Raises:
            PathRefusedError: the path may not be used.
        """
        fence = within if within is not None else self.real_root if self._is_confined else None
        self._check_text(reference, is_confined=fence is not None)
        if not self._portable_names:
            return self._locate_as_a_release(folder, reference, within, fence)
        if fence is None:
            return self._follow(os.path.join(folder, reference), None, reference)  # noqa: PTH118
        names = reference.split("/")
        resolved = self._walk(folder, names, fence, reference)
        if resolved.kind is not PathKind.DIRECTORY and names[-1] in ("", "."):
            return PathTarget(resolved.path, PathKind.MISSING)
        return resolved

    def why_not_a_name(self, name: str) -> str | None:
        """Return :func:`why_not_a_name`; an accepted name is not judged again as a path."""
        reason = why_not_a_name(name)
        if reason is None:
            self._accepted.add(name)
        return reason

    def _check_text(self, reference: str, *, is_confined: bool) -> None:
        """Raise PathRefusedError for a text that is no path, or (``is_confined``) may lead out."""
        if is_confined and reference in self._accepted:
            return
        if self._portable_names:
            reason = why_not_portable(reference) if is_confined else why_not_a_path(reference)
        elif not is_confined:
            reason = None
        else:
            separated = _separated(reference)
            is_absolute = separated.startswith("/") or os.path.splitdrive(reference)[0]
            leaves = "leads out of its folder" if ".." in separated.split("/") else None
            reason = "is absolute" if is_absolute else leaves
        if not reference:
            reason = "is empty"
        if reason is not None:
            rule = PATH_NOT_PORTABLE if reference else PATH_EMPTY
            remedy = "use a relative path with '/' inside the package"
            raise PathRefusedError(rule, reason, remedy, reference=reference, root=self.root)
        if is_confined:
            self._accepted.add(reference)

    def _walk(self, folder: str, names: list[str], fence: str, reference: str) -> PathTarget:
        """Follow ``names`` below ``folder``; no link on the way may lead out of ``fence``."""
        reached = None
        for name in names:
            if name in ("", "."):
                continue
            path = f"{folder}{os.sep}{name}"
            reached = self._look_at(path)
            folder = reached.path
            if folder != path:
                self._require_inside(folder, fence, reference)
        return self._look_at(folder) if reached is None else reached

    def _look_at(self, path: str) -> PathTarget:
        """Return the place at ``path``, whose parent has no links; links are followed anywhere."""
        resolved = self._looked_at.get(path)
        if resolved is None:
            resolved = _look_at(path)
            if resolved.kind is PathKind.MISSING and self._absences is not None:
                resolved = PathTarget(resolved.path, self._absences.kind_at(resolved.path))
            self._looked_at[path] = resolved
        return resolved

    def kind_at(self, path: str) -> PathKind:
        """Return the kind of file at ``path`` (absolute, links followed), absent ones included."""
        kind = kind_at(path)
        if kind is PathKind.MISSING and self._absences is not None:
            return self._absences.kind_at(path)
        return kind

    def is_absent(self, path: str) -> bool:
        """Return True if ``path`` (absolute, links followed) is not on the disk, but absent."""
        if self._absences is None or kind_at(path) is not PathKind.MISSING:
            return False
        return self._absences.kind_at(path) is not PathKind.MISSING

    def files_in(self, directory: str) -> list[str]:
        """Return the names of files directly in ``directory``, sorted, absent ones included."""
        if self._absences is None:
            return list_names(Path(directory), PathKind.FILE)
        is_here = kind_at(directory) is PathKind.DIRECTORY
        names = list_names(Path(directory), PathKind.FILE) if is_here else []
        return sorted({*names, *self._absences.files_beside(names, directory)})

    def _locate_as_a_release(
        self, folder: str, reference: str, within: str | None, fence: str | None
    ) -> PathTarget:
        if within is not None and within.endswith(os.sep):
            # The release compares texts, and "<folder>//" is the beginning of none.
            reason = "leads out of the shared asset, whose folder ends with a slash"
            raise self._leads_out(reason, reference)
        # A file system sees the text up to a NUL.
        path = os.path.join(folder, _separated(reference).partition("\0")[0])  # noqa: PTH118
        try:
            os.stat(path)  # noqa: PTH116
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                # Too long, not permitted or a loop of links: no link on the way is followed then.
                path = os.path.normpath(path)
                self._require_inside(path, fence, reference)
                return PathTarget(path, PathKind.MISSING)
        if not os.path.exists(folder):  # noqa: PTH110 - a link to nowhere: nothing can be followed
            return PathTarget(os.path.normpath(path), PathKind.MISSING)
        return self._follow(path, fence, reference)

    def _follow(self, path: str, fence: str | None, reference: str) -> PathTarget:
        try:
            real = follow_links(path) if self._portable_names else real_as_far_as_it_exists(path)
        except OSError:  # more links in a row than the system follows
            return PathTarget(path, PathKind.MISSING)
        self._require_inside(real, fence, reference)
        return PathTarget(real, kind_at(path))

    def _require_inside(self, real: str, fence: str | None, reference: str) -> None:
        if fence is not None and not is_inside(real, fence):
            whole = "the package" if fence == self.real_root else "the shared asset"
            raise self._leads_out(f"leads out of {whole} through a symbolic link", reference)

    def _leads_out(self, reason: str, reference: str) -> PathRefusedError:
        remedy = "put the file into the package"
        return PathRefusedError(PATH_ESCAPES, reason, remedy, reference=reference, root=self.root)


def _separated(reference: str) -> str:
    return reference.replace("\\", "/") if _IS_WINDOWS else reference


def _look_at(path: str) -> PathTarget:
    """Return the place at ``path``; a link gives the place that it leads to, with another path."""
    try:
        status = os.lstat(path)
        if is_link(status):
            path = follow_links(path)
            status = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):  # missing, not permitted, below a file, or a loop of links
        return PathTarget(path, PathKind.MISSING)
    return PathTarget(path, kind_of(status))
