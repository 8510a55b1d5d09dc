"""Resolves the paths of the component generation, which are relative to a component's or a
variant's folder.

Under the strict rules a path is judged as :mod:`ortpkg.package.paths.path_resolver` judges it. For
a release of onnxruntime it is judged as ``ResolvePath`` of that release does: relative, without a
segment ``..``, and what it leads to, all links followed, inside the package; a path that does not
exist is judged by the part of it that does. Where paths out of the package are allowed, it may be
anything.
"""

from __future__ import annotations

import errno
import os

from ortpkg.package.paths.path_resolver import (
    PathKind,
    follow_links,
    is_inside,
    is_link,
    kind_of,
    why_not_a_path,
    why_not_portable,
)
from ortpkg.package.paths.plain_names import Place
from ortpkg.package.reading_rules import ReadingRules
from ortpkg.package.rules import PATH_EMPTY, PATH_ESCAPES, PATH_NOT_PORTABLE, Rule

_IS_WINDOWS = os.name == "nt"


class ReferenceRefusedError(Exception):
    """A path that a package names may not be used; says which rule it breaks, and why.

    Never leaves the package layer: readers turn it into a finding.
    """

    def __init__(self, rule: Rule, reason: str) -> None:
        super().__init__(reason)
        self.rule = rule
        self.reason = reason


class ReferenceResolver:
    """Resolves references in one package.

    Args:
        root: the real path of the package root.
        rules: how the package is read.
        is_confined: whether paths must stay in the package.
    """

    def __init__(self, root: str, rules: ReadingRules, *, is_confined: bool) -> None:
        self.root = root
        self._rules = rules
        self._is_confined = is_confined

    def resolve(self, reference: str, base: str, *, within: str | None = None) -> Place:
        """The place of ``reference``, which is relative to the real path ``base``; it need not
        exist.

        Args:
            reference: as the package has it.
            base: an absolute path with links followed.
            within: a folder, with links followed, that the path must stay in, whatever the layout.

        Raises:
            ReferenceRefusedError: the path may not be used.
        """
        fence = within if within is not None else self.root if self._is_confined else None
        names = self._checked_names(reference, is_confined=fence is not None)
        if within is not None and within.endswith(os.sep) and not self._rules.portable_names:
            # The release compares texts, and "<folder>//" is the beginning of none.
            raise ReferenceRefusedError(
                PATH_ESCAPES, "leads out of the shared asset, whose folder ends with a slash"
            )
        whole = os.path.join(base, "/".join(names))  # noqa: PTH118  # strings: many of them
        if not self._rules.portable_names and (place := self._unfollowed(whole, fence)):
            return place
        if fence is None:
            return self._follow(whole, None)
        path, kind = base, PathKind.DIRECTORY
        for name in names:
            if name in ("", "."):
                continue
            path = f"{path}{os.sep}{name}"
            if kind is PathKind.MISSING:
                continue
            try:
                status = os.lstat(path)
            except (OSError, ValueError):  # missing, not permitted, or below a file
                kind = PathKind.MISSING
                continue
            if not is_link(status):
                kind = kind_of(status)
            elif self._rules.portable_names:  # no link on the way may lead out
                followed = self._follow(path, fence)
                path, kind = followed.path, followed.kind
            else:  # only the end of the way counts
                return self._follow(whole, fence)
        if path is base:
            kind = kind_at(base)
        if kind is not PathKind.DIRECTORY and names[-1] in ("", "."):  # "file/" is nothing
            kind = PathKind.MISSING
        return Place(path, kind)

    def _checked_names(self, reference: str, *, is_confined: bool) -> list[str]:
        """The names that ``reference`` is made of, if its text is acceptable."""
        if not reference:
            raise ReferenceRefusedError(PATH_EMPTY, "is empty")
        separated = reference.replace("\\", "/") if _IS_WINDOWS else reference
        names = separated.split("/")
        if self._rules.portable_names:
            reason = why_not_portable(reference) if is_confined else why_not_a_path(reference)
        elif is_confined and (separated.startswith("/") or os.path.splitdrive(reference)[0]):
            reason = "is absolute"
        else:
            reason = "leads out of its folder" if is_confined and ".." in names else None
        if reason is not None:
            raise ReferenceRefusedError(PATH_NOT_PORTABLE, reason)
        if (
            "\0" in reference
        ):  # where names may hold anything, a file system still sees the text up to the NUL
            names = separated.partition("\0")[0].split("/")
        return names

    def _unfollowed(self, path: str, fence: str | None) -> Place | None:
        """What a release takes ``path`` for where the system cannot say what it is; None where it
        can.

        The path is too long, not permitted or a loop of links. No link on the way is followed then.
        """
        try:
            os.stat(path)  # noqa: PTH116
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                return None
        else:
            return None
        normal = os.path.normpath(path)
        self._require_inside(normal, fence)
        return Place(normal, PathKind.MISSING)

    def _follow(self, path: str, fence: str | None) -> Place:
        try:
            real = (
                follow_links(path)
                if self._rules.portable_names
                else _real_as_far_as_it_exists(path)
            )
        except OSError:  # more links in a row than the system follows
            return Place(path, PathKind.MISSING)
        self._require_inside(real, fence)
        return Place(real, kind_at(path))

    def _require_inside(self, real: str, fence: str | None) -> None:
        if fence is not None and not is_inside(real, fence):
            whole = "the package" if fence == self.root else "the shared asset"
            raise ReferenceRefusedError(
                PATH_ESCAPES, f"leads out of {whole} through a symbolic link"
            )


def kind_at(path: str) -> PathKind:
    """What is at ``path``, links followed."""
    try:
        return kind_of(os.stat(path))  # noqa: PTH116
    except (OSError, ValueError):
        return PathKind.MISSING


def _real_as_far_as_it_exists(path: str) -> str:
    """``path`` with links followed in the part of it that exists (C++:
    ``std::filesystem::weakly_canonical``).

    A link that leads nowhere does not exist.
    """
    missing: list[str] = []
    while not os.path.exists(path):  # noqa: PTH110
        parent, name = os.path.split(path)
        if parent in ("", path):
            break
        missing.append(name)
        path = parent
    return os.path.normpath(os.path.join(os.path.realpath(path), *reversed(missing)))  # noqa: PTH118
