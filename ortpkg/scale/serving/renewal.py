"""Renewal of models: a newer installation of their name is loaded beside them and takes over.

``ortpkg upgrade``, ``install`` and ``rollback`` switch what a name means in one step. The server
notices, opens the new installation, runs the package's samples on it, and only then gives it new
requests. Running requests stay with the old model, which is closed after the last of them. If the
first run fails, that is reported and the old model stays.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ortpkg.distribution.store.generations import Generation
from ortpkg.distribution.used_packages import (
    UsedPackage,
    find_used_package,
    release_use,
    use_installed,
)
from ortpkg.foundations.errors import OrtpkgError, RunError
from ortpkg.scale.serving.loading import Loaded
from ortpkg.scale.serving.served_model import ServedModel
from ortpkg.scale.serving.served_versions import ServedVersions
from ortpkg.scale.serving.server_log import log_fault

#: Interval in which the store is asked, in seconds; that reads one small file for each name.
POLL_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewed:
    """Result for a newer installation.

    Attributes:
        before: Name and version that answered until now.
        installed: Current installation of the name.
        loaded: Model that answers from now on; None if ``before`` stays.
        problem: Reason why it stays.
    """

    before: str
    installed: Generation
    loaded: Loaded | None
    problem: str = ""


@dataclass(slots=True)
class _FollowedModel:
    """Served model that is followed.

    Attributes:
        model: The model.
        package: Its package in the store.
        served: Installation that it was loaded from.
        last_seen: Installation of its name at the last check.
    """

    model: ServedModel
    package: UsedPackage
    served: Generation
    last_seen: Generation


class Renewal:
    """Renewal of the served models of a server.

    Args:
        versions: Served models.
        load: Opens the package in a folder and runs it once.
        on_renewed: Called with the result for each newer installation.
    """

    def __init__(
        self,
        versions: ServedVersions,
        load: Callable[[Path], Loaded],
        on_renewed: Callable[[Renewed], None],
    ) -> None:
        self._versions = versions
        self._load = load
        self._on_renewed = on_renewed
        self._followed: list[_FollowedModel] = []
        self._is_over = threading.Event()

    def follow(self, root: Path, model: ServedModel) -> None:
        """Follow the name under which the package at ``root`` is installed.

        A package that is not installed, or was given with its version, cannot change and is not
        followed.
        """
        used = find_used_package(root)
        if used is not None and used.generation is not None and not used.is_pinned:
            self._followed.append(_FollowedModel(model, used, used.generation, used.generation))

    def look(self) -> None:
        """Check each name once, and load new installations."""
        for followed in self._followed:
            try:
                current = followed.package.store.find(followed.last_seen.name)
            except OrtpkgError:
                continue  # it was uninstalled; the old model stays until the server ends
            # compares records, since numbers start again after an uninstallation
            if current == followed.last_seen:
                continue
            # After a rollback from one that was not served, it is the served one again.
            if not current.is_same_as(followed.last_seen) and not current.is_same_as(
                followed.served
            ):
                self._renew(followed, current)
            followed.last_seen = current

    def start(self) -> None:
        """Check every few seconds, on a separate thread, until :meth:`stop`."""
        if self._followed:
            threading.Thread(target=self._run, name="ortpkg-serving-renewal", daemon=True).start()

    def stop(self) -> None:
        """Stop checking; what is being loaded is not served."""
        self._is_over.set()

    def _run(self) -> None:
        while not self._is_over.wait(POLL_S):
            try:
                self.look()
            except Exception as error:  # noqa: BLE001 - the next look may find another state
                log_fault("fault", error, while_doing="following names in the store")

    def _renew(self, followed: _FollowedModel, current: Generation) -> None:
        """Load the new installation; it answers only if its first run succeeds."""
        before, old = followed.model, followed.package
        used: UsedPackage | None = None
        try:
            opened = old.store.open(current.name)
            used = use_installed(old.store, opened, is_pinned=False)
            loaded = self._load(used.root)
            if loaded.first_run.matches is False:
                raise RunError("its samples do not give what the package expects")
        except Exception as error:  # noqa: BLE001 - the old model goes on
            if used is not None and used.root != old.root:
                release_use(used.root)
            self._on_renewed(
                Renewed(before=before.title, installed=current, loaded=None, problem=str(error))
            )
            return
        if self._is_over.is_set():
            return
        self._versions.replace(before, loaded.model)
        followed.model, followed.package, followed.served = loaded.model, used, opened.generation
        if used.root != old.root:
            weakref.finalize(before, release_use, old.root)
        self._on_renewed(Renewed(before=before.title, installed=current, loaded=loaded))
