"""A served name follows the store: what is newer takes over once it has run, or is not served."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

import ortpkg
from ortpkg.distribution.installation import install
from ortpkg.distribution.opening_references import use_package
from ortpkg.distribution.publishing import publish
from ortpkg.distribution.registry.oci_layout import OciLayout
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.distribution.used_packages import find_used_package
from ortpkg.distribution.variant_choice import InstallWishes
from ortpkg.package.reader import open_package
from ortpkg.package.references.package_references import parse_reference
from ortpkg.scale.serving.loading import Loaded, load
from ortpkg.scale.serving.renewal import Renewal, Renewed
from ortpkg.scale.serving.served_versions import ServedVersions
from ortpkg.scale.serving.serving_options import LoadWishes, ServingLimits
from ortpkg.selection.matching.wishes import SelectionWishes
from tests.measuring.conftest import add_samples, scale_model

_LIMITS = ServingLimits(concurrency=1)
_WISHES = LoadWishes(selection=SelectionWishes(backend="embedded"), threads=1)


def _load(root: Path) -> Loaded:
    return load(open_package(root), _WISHES, _LIMITS)


@dataclass
class _Server:
    """What is served of ``scale``, and what came of its renewals."""

    layout: Path
    store: PackageStore
    versions: ServedVersions = field(default_factory=ServedVersions)
    renewed: list[Renewed] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.renewal = Renewal(self.versions, _load, self.renewed.append)

    def install(self, tag: str) -> None:
        """Has the name mean the version of that tag."""
        install(
            f"oci-layout:{self.layout}:{tag}",
            store=self.store,
            wishes=InstallWishes(samples=True),
            name="scale",
        )

    def serve(self, reference: str) -> None:
        """Serves what a reference means, and follows it."""
        root = use_package(parse_reference(reference), store=self.store)
        loaded = _load(root)
        self.versions.add(loaded.model)
        self.renewal.follow(root, loaded.model)

    @property
    def answers(self) -> tuple[str, float]:
        """The version that answers, and by what it multiplies."""
        model = self.versions.find("scale")
        return model.version, float(model.infer({"x": np.ones((1, 3), np.float32)})["y"][0, 0])


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Published: 1 and 2, which double as their samples say, and 3, which does not."""
    folder = tmp_path_factory.mktemp("scales")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "ortpkg.foundations.storage.package_lock.locks_directory", lambda: folder / "locks"
        )
        for tag, factor in (("1", 2.0), ("2", 2.00001), ("3", 3.0)):
            model = scale_model(folder / f"{tag}.onnx", factor=factor)
            root = folder / tag / "scale.ortpackage"
            root.parent.mkdir()
            ortpkg.create(root, [ortpkg.NewVariant(model=model, name="cpu", ep="cpu")])
            add_samples(root)
            publish(root, OciLayout(folder / "layout"), tags=[tag])
    return folder / "layout"


@pytest.fixture
def server(layout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Server:
    monkeypatch.setenv("ORTPKG_STORE", str(tmp_path / "store"))
    monkeypatch.setattr("ortpkg.distribution.used_packages._used", {})
    server = _Server(layout, PackageStore())
    server.install("1")
    return server


def test_a_newer_version_takes_over_and_the_older_goes(server: _Server) -> None:
    server.serve("scale")
    old = weakref.ref(server.versions.find("scale"))
    old_root = server.store.open("scale").root
    server.renewal.look()
    assert server.renewed == []

    server.install("2")
    server.renewal.look()
    assert server.answers[0] == "2"
    assert server.versions.versions("scale") == ("2",)
    (renewed,) = server.renewed
    assert (renewed.before, renewed.problem) == ("scale:1", "")
    gc.collect()
    assert old() is None
    assert find_used_package(old_root) is None


def test_a_request_that_runs_stays_with_the_model_that_it_began_with(server: _Server) -> None:
    server.serve("scale")
    began_with = server.versions.find("scale")
    server.install("2")
    server.renewal.look()
    assert began_with.infer({"x": np.ones((1, 3), np.float32)})["y"][0, 0] == 2


def test_what_fails_its_first_run_is_not_served_and_not_tried_again(server: _Server) -> None:
    server.serve("scale")
    server.install("3")
    server.renewal.look()
    server.renewal.look()
    assert server.answers == ("1", 2.0)
    (kept,) = server.renewed
    assert kept.loaded is None
    assert "samples" in kept.problem
    assert kept.installed.tag == "3"


def test_after_a_failure_the_next_version_is_tried(server: _Server) -> None:
    server.serve("scale")
    server.install("3")
    server.renewal.look()
    server.install("2")
    server.renewal.look()
    assert server.answers[0] == "2"


def test_a_name_that_is_rolled_back_to_what_answers_loads_nothing(server: _Server) -> None:
    server.serve("scale")
    answering = server.versions.find("scale")
    server.install("3")
    server.renewal.look()
    server.store.rollback("scale")
    server.renewal.look()
    assert server.versions.find("scale") is answering
    assert [each.installed.tag for each in server.renewed] == ["3"]

    server.install("3")
    server.renewal.look()
    assert [each.installed.tag for each in server.renewed] == ["3", "3"]


def test_what_was_named_by_its_version_stays(server: _Server) -> None:
    server.serve("scale:1")
    server.install("2")
    server.renewal.look()
    assert server.answers[0] == "1"
    assert server.renewed == []


def test_a_version_that_was_named_stays_when_the_name_comes_to_it_and_goes_on(
    server: _Server,
) -> None:
    server.install("2")
    server.serve("scale:1")
    server.serve("scale")
    for tag, served in (("1", ("1",)), ("2", ("1", "2"))):
        server.install(tag)
        server.renewal.look()
        assert server.versions.versions("scale") == served
        assert server.answers[0] == tag


def test_whatever_a_newer_version_raises_what_answers_goes_on(
    server: _Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.serve("scale")
    server.install("2")
    with monkeypatch.context() as patch:
        patch.setattr(f"{__name__}.load", lambda *_: [].pop())
        server.renewal.look()
    (kept,) = server.renewed
    assert (kept.loaded, kept.problem) == (None, "pop from empty list")
    assert server.answers == ("1", 2.0)


def test_what_was_uninstalled_goes_on(server: _Server) -> None:
    server.serve("scale")
    server.store.uninstall("scale")
    server.renewal.look()
    assert server.answers == ("1", 2.0)


def test_what_was_uninstalled_and_installed_anew_takes_over(server: _Server) -> None:
    server.serve("scale")
    server.store.uninstall("scale")
    server.install("2")
    server.renewal.look()
    assert server.answers[0] == "2"


def test_what_answers_by_default_does_so_after_it_is_renewed(server: _Server) -> None:
    server.versions = ServedVersions({"scale": "1"})
    server.renewal = Renewal(server.versions, _load, server.renewed.append)
    server.serve("scale")
    server.install("2")
    server.renewal.look()
    assert server.answers[0] == "2"
