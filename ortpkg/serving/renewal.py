"""Models that follow their names in the store: what is newer is loaded beside and takes over.

``ortpkg upgrade``, ``install`` and ``rollback`` switch what a name means in one step. A server sees
that, opens what the name means now, has it run the package's samples, and only then gives it the
requests that come next; those that run stay with the model that they began with, which goes with
the last of them. What fails its first run is told and not used, and what answered before goes on.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ortpkg.distribution.used_packages import UsedPackage, release_use, use_installed, used_package
from ortpkg.errors import OrtpkgError, RunError
from ortpkg.serving.loading import Loaded
from ortpkg.serving.served_model import ServedModel
from ortpkg.serving.served_versions import ServedVersions
from ortpkg.serving.server_log import log_fault
from ortpkg.store.generations import Generation

#: How often the store is asked what a name means; that reads one small file.
POLL_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewed:
    """What came of a newer installation.

    Attributes:
        before: what answered until now, name and version.
        installed: what the name means now.
        loaded: what answers from now on; None where ``before`` goes on.
        problem: why it does.
    """

    before: str
    installed: Generation
    loaded: Loaded | None
    problem: str = ""


@dataclass(slots=True)
class _Followed:
    """A served model.

    Attributes:
        used: its package in the store.
        served: the installation that it is of.
        seen: the installation that its name meant when it was last looked at.
    """

    model: ServedModel
    used: UsedPackage
    served: Generation
    seen: Generation


class Renewal:
    """Keeps served models on what their names in the store mean.

    Args:
        versions: what is served.
        load: opens the package in a folder and has it run once.
        on_renewed: told what came of each newer installation.
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
        self._followed: list[_Followed] = []
        self._is_over = threading.Event()

    def follow(self, root: Path, model: ServedModel) -> None:
        """Follows the name under which the package at ``root`` is installed.

        Nothing to do where it is not, or was named by its version: that cannot become another one.
        """
        used = used_package(root)
        if used is not None and used.generation is not None and not used.is_pinned:
            self._followed.append(_Followed(model, used, used.generation, used.generation))

    def look(self) -> None:
        """Asks once for each name, and loads what is new."""
        for each in self._followed:
            try:
                current = each.used.store.find(each.seen.name)
            except OrtpkgError:
                continue  # it was uninstalled: what answers goes on until the server ends
            if current == each.seen:  # numbers begin anew where a name was uninstalled
                continue
            # Rolled back from one that was not served, it means what answers.
            if not current.is_same_as(each.seen) and not current.is_same_as(each.served):
                self._renew(each, current)
            each.seen = current

    def start(self) -> None:
        """Looks every few seconds, on a thread of its own, until :meth:`stop`."""
        if self._followed:
            threading.Thread(target=self._run, name="ortpkg-serving-renewal", daemon=True).start()

    def stop(self) -> None:
        """Looks no more; what is being loaded is not served."""
        self._is_over.set()

    def _run(self) -> None:
        while not self._is_over.wait(POLL_S):
            try:
                self.look()
            except Exception as error:  # noqa: BLE001 - the next look may find another state
                log_fault("fault", error, while_doing="following names in the store")

    def _renew(self, followed: _Followed, current: Generation) -> None:
        """Loads what the name means now; whether it may answer is what its first run says."""
        before, old = followed.model, followed.used
        used: UsedPackage | None = None
        try:
            opened = old.store.open(current.name)
            used = use_installed(old.store, opened, is_pinned=False)
            loaded = self._load(used.root)
            if loaded.first_run.matches is False:
                raise RunError("its samples do not give what the package expects")
        except Exception as error:  # noqa: BLE001 - whatever it is, what answered before goes on
            if used is not None and used.root != old.root:
                release_use(used.root)
            self._on_renewed(
                Renewed(before=before.title, installed=current, loaded=None, problem=str(error))
            )
            return
        if self._is_over.is_set():
            return
        self._versions.replace(before, loaded.model)
        followed.model, followed.used, followed.served = loaded.model, used, opened.generation
        if used.root != old.root:
            weakref.finalize(before, release_use, old.root)
        self._on_renewed(Renewed(before=before.title, installed=current, loaded=loaded))
