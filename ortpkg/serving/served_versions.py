"""Which model a name and a version mean.

Versions of one name stand beside each other; a request that names none gets the newest, unless
another one was named as the default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from ortpkg.errors import NotServingError, UnknownModelError, UsageError, quoted
from ortpkg.names import did_you_mean
from ortpkg.serving.served_model import ServedModel
from ortpkg.versions import parse_version

#: When to come back for a model that is being loaded.
_RETRY_AFTER_S = 1.0


class ServedVersions:
    """The models of a server. Changes take effect with the next request.

    Args:
        defaults: name → the version that answers where none is asked for.

    Attributes:
        is_complete: set it when everything that is to be served has come; until then what is not
            there may still come.
    """

    def __init__(self, defaults: Mapping[str, str] | None = None) -> None:
        self._models: dict[str, dict[str, ServedModel]] = {}
        self._defaults = dict(defaults or {})
        self.is_complete = False

    def add(self, model: ServedModel) -> None:
        """Has ``model`` answer. UsageError where its name and version are taken."""
        versions = self._models.setdefault(model.name, {})
        if model.version in versions:
            raise UsageError(f"{quoted(model.title)} is served already: give each version once")
        versions[model.version] = model

    def replace(self, old: ServedModel, new: ServedModel) -> None:
        """Has ``new``, of the same name, answer in place of ``old`` from the next request on.

        Where ``old`` is the default by the caller's word, ``new`` is from now on. A model that was
        added under the version of ``new`` stays, and answers for both.
        """
        versions = self._models[old.name]
        kept = {version: model for version, model in versions.items() if model is not old}
        if self._defaults.get(old.name) == old.version:
            self._defaults[old.name] = new.version
        self._models[old.name] = {new.version: new, **kept}

    def find(self, name: str, version: str | None = None) -> ServedModel:
        """The model of that name and version; without one, the default's.

        Raises UnknownModelError, which lists what there is, and NotServingError where it may still
        come.
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
        """The version of a served name that answers where none is asked for."""
        return self._defaults.get(name) or newest(self._models[name])

    def versions(self, name: str) -> tuple[str, ...]:
        """The versions of a name, oldest first; none of a name that is not served."""
        return tuple(sorted(self._models.get(name, ()), key=_age))

    def names(self) -> tuple[str, ...]:
        """What is served, in the order in which it came."""
        return tuple(self._models)

    def check_plan(self, planned: Sequence[tuple[str, str]]) -> None:
        """What is wrong with the names and versions that are to come, before they are loaded.

        UsageError where two are the same, or a default is not among them.
        """
        for name, version in planned:
            if planned.count((name, version)) > 1:
                raise UsageError(f"{quoted(f'{name}:{version}')} is named twice")
        for name, version in self._defaults.items():
            if (name, version) not in planned:
                known = [f"{each}={number}" for each, number in planned]
                raise UsageError(
                    f"the default {quoted(f'{name}={version}')} is not among what is served:"
                    f" {', '.join(map(quoted, known))}"
                )

    def __iter__(self) -> Iterator[ServedModel]:
        return (model for versions in self._models.values() for model in versions.values())


def newest(versions: Mapping[str, ServedModel]) -> str:
    """The newest version, as Python's packaging orders them; a text that is none is older."""
    return max(versions, key=_age)


@lru_cache(maxsize=1024)  # every request for a model's default version asks
def _age(version: str) -> tuple[bool, object, str]:
    parsed = parse_version(version)
    return parsed is not None, parsed or 0, version


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(map(quoted, names)) or "none"
