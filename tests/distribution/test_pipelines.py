"""Packages of several component models: each gets its variant, what they share comes once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import ortpkg as ort
from ortpkg.authoring.create import add_variant, create
from ortpkg.authoring.new_variant import NewVariant
from ortpkg.distribution.installation import install
from ortpkg.distribution.publishing import publish
from ortpkg.distribution.registry.repositories import repository_of
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.distribution.variant_choice import InstallWishes
from ortpkg.foundations.errors import UnknownComponentError
from ortpkg.package.references.package_references import OciReference, parse_reference
from tests.authoring.weight_models import make_model, weight
from tests.cli.conftest import RunCommand
from tests.cli.conftest import ortpkg as ortpkg
from tests.distribution.conftest import SAMPLES
from tests.registry.in_process_registry import InProcessRegistry, running


@pytest.fixture
def registry() -> Iterator[InProcessRegistry]:
    with running(InProcessRegistry()) as made:
        yield made


@pytest.fixture
def pair(registry: InProcessRegistry, store: PackageStore, tmp_path: Path) -> str:
    """Two components, each for CPU and CUDA, with weights of which those for CPU are the same."""
    root = tmp_path / "pair.ortpackage"
    for index, component in enumerate(("encode", "decode")):
        for name, ep, seed in (("small", "cpu", 0), ("large", "cuda", 1 + index)):
            model = make_model(tmp_path / component / name, {"w": weight(seed, 64)})
            if not root.exists():
                variants = [NewVariant(model=model, name=name, ep=ep)]
                create(root, variants, component=component, notify=lambda _: None)
            else:
                add_variant(
                    root, model, component=component, variant=name, ep=ep, notify=lambda _: None
                )
    return _published(registry, root)


def _published(registry: InProcessRegistry, root: Path) -> str:
    place = parse_reference(f"oci://{registry.host}/models/{root.stem}")
    assert isinstance(place, OciReference)
    publish(root, repository_of(place), tags=["latest"])
    registry.moved.clear()
    return str(place)


def _moved(registry: InProcessRegistry, digest: str) -> int:
    return registry.requests["GET", next(path for path in registry.moved if digest in path)]


def test_each_component_gets_the_variant_that_it_runs(
    pair: str, store: PackageStore, registry: InProcessRegistry
) -> None:
    cpu = install(pair, wishes=InstallWishes(profiles=("plain-server",)))

    assert [each.name for each in cpu.plan.choices] == ["encode/small", "decode/small"]
    weights = {
        path: each.layer.digest for path, each in cpu.plan.files.items() if path.endswith(".bin")
    }
    assert len(weights) == 2
    (digest,) = set(weights.values())
    assert _moved(registry, digest) == 1
    root = store.open("pair").root
    assert all((root / path).is_file() for path in weights)
    assert not list(root.rglob("large/*.bin"))


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        (["--variant", "large"], ["encode/large", "decode/large"]),
        (["--variant", "decode/large"], ["encode/small", "decode/large"]),
        (["--component", "decode"], ["decode/small"]),
        (["--component", "decode", "--variant", "large"], ["decode/large"]),
        (["-c", "encode", "-c", "decode"], ["encode/small", "decode/small"]),
        (["-c", "encode", "--all-variants"], ["encode/small", "encode/large"]),
    ],
)
def test_variants_and_components_are_asked_for_by_name(
    pair: str, store: PackageStore, ortpkg: RunCommand, options: list[str], chosen: list[str]
) -> None:
    done = ortpkg("install", pair, "--profile", "plain-server", *options, "--json")
    if "--all-variants" in options:
        done = ortpkg("install", pair, *options, "--json")

    assert done.code == 0, done.err
    assert list(store.find("pair").variants) == chosen
    again = ortpkg("upgrade", "pair", "--json").json["packages"][0]
    assert again["is_current"]


def test_a_name_that_is_none_of_the_component_is_refused(pair: str, store: PackageStore) -> None:
    for wishes, message in (
        (
            InstallWishes(components=("decoed",)),
            "no component model 'decoed' .did you mean 'decode'",
        ),
        (InstallWishes(components=("decode",), variants=("encode/large",)), "'encode/large'"),
    ):
        with pytest.raises(UnknownComponentError, match=message):
            install(pair, wishes=wishes)
    assert store.packages() == ()


def test_a_pipeline_runs_by_its_name(
    store: PackageStore, registry: InProcessRegistry, ortpkg: RunCommand
) -> None:
    reference = _published(registry, SAMPLES / "tinychar.ortpackage")
    report = install(reference, wishes=InstallWishes(samples=True))

    files = report.plan.fetched.artifact.files
    shared = files["models/tinychar/cpu-fp32/tinychar.onnx.data"]
    assert [each.component for each in report.plan.choices] == ["prefill", "decode"]
    assert shared.variants is not None
    assert len(shared.variants) == 2
    assert _moved(registry, shared.layer.digest) == 1
    done = ortpkg("run", "tinychar", "--json")
    assert done.code == 0, done.err
    assert [each["component"] for each in json.loads(done.out)["ran"]] == ["prefill", "decode"]
    assert {each.variant for each in store.uses("tinychar")} == {
        "prefill/cpu-fp32",
        "decode/cpu-fp32",
    }
    assert ort.verify(store.open("tinychar").root).is_intact
