"""Served models by name and version.

Several versions of a name can be served. A request without a version gets the newest, unless
another one was set as the default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from ortpkg.foundations.errors import NotServingError, UnknownModelError, UsageError, quoted
from ortpkg.foundations.names import did_you_mean
from ortpkg.foundations.versions import parse_version
from ortpkg.scale.serving.served_model import ServedModel

#: Time after which to retry for a model that is being loaded, in seconds.
_RETRY_AFTER_S = 1.0


class ServedVersions:
    """Models of a server; changes take effect with the next request.

    Args:
        defaults: Default version by name.

    Attributes:
        is_complete: Set to True when everything to be served is loaded; before that, a missing
            model may still come.
    """

    def __init__(self, defaults: Mapping[str, str] | None = None) -> None:
        self._models: dict[str, dict[str, ServedModel]] = {}
        self._defaults = dict(defaults or {})
        self.is_complete = False

    def add(self, model: ServedModel) -> None:
        """Add a model.

        Raises:
            UsageError: Its name and version are taken.
        """
        versions = self._models.setdefault(model.name, {})
        if model.version in versions:
            raise UsageError(f"{quoted(model.title)} is served already: give each version once")
        versions[model.version] = model

    def replace(self, old: ServedModel, new: ServedModel) -> None:
        """Replace ``old`` by ``new`` of the same name from the next request on.

        If the caller made ``old`` the default, ``new`` becomes the default. A model that was added
        under the version of ``new`` stays, and answers for both.
        """
        versions = self._models[old.name]
        remaining = {version: model for version, model in versions.items() if model is not old}
        if self._defaults.get(old.name) == old.version:
            self._defaults[old.name] = new.version
        self._models[old.name] = {new.version: new, **remaining}

    def find(self, name: str, version: str | None = None) -> ServedModel:
        """Return the model of that name and version, or of the default version.

        Raises:
            UnknownModelError: There is none; the message lists what is served.
            NotServingError: It may still come.
        """
        versions = self._models.get(name, {})
        wanted = version or (self.default_version(name) if versions else None)
        model = versions.get(wanted or "")
        if model is not None:
            return model
        if not self.is_complete:
            raise NotServingError("models are still being loaded", retry_after_s=_RETRY_AFTER_S)
        if not versions:
            raise UnknownModelError(
                f"there is no model {quoted(name)}{did_you_mean(name, self._models)}; served are"
                f" {_listed(self._models)}",
                name=name,
            )
        raise UnknownModelError(
            f"model {quoted(name)} has no version {quoted(wanted)}; served are {_listed(versions)}",
            name=name,
            version=wanted,
        )

    def default_version(self, name: str) -> str:
        """Return the version of a served name that answers if none is asked for."""
        return self._defaults.get(name) or newest(self._models[name])

    def versions(self, name: str) -> tuple[str, ...]:
        """Return the versions of a name, oldest first; none if it is not served."""
        return tuple(sorted(self._models.get(name, ()), key=_age))

    def names(self) -> tuple[str, ...]:
        """Return the served names in the order in which they were added."""
        return tuple(self._models)

    def check_plan(self, planned: Sequence[tuple[str, str]]) -> None:
        """Check the names and versions that are to be loaded.

        Raises:
            UsageError: Two are equal, or a default is not among them.
        """
        for name, version in planned:
            if planned.count((name, version)) > 1:
                raise UsageError(f"{quoted(f'{name}:{version}')} is named twice")
        for name, version in self._defaults.items():
            if (name, version) not in planned:
                planned_texts = [f"{planned_name}={number}" for planned_name, number in planned]
                raise UsageError(
                    f"the default {quoted(f'{name}={version}')} is not among what is served:"
                    f" {', '.join(map(quoted, planned_texts))}"
                )

    def __iter__(self) -> Iterator[ServedModel]:
        return (model for versions in self._models.values() for model in versions.values())


def newest(versions: Mapping[str, ServedModel]) -> str:
    """Return the newest version, as Python's packaging orders them; other texts are older."""
    return max(versions, key=_age)


@lru_cache(maxsize=1024)  # every request for the default version asks
def _age(version: str) -> tuple[bool, object, str]:
    parsed = parse_version(version)
    return parsed is not None, parsed or 0, version


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(map(quoted, names)) or "none"
