"""Variants that are made when somebody looks."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.package.formats.variants import LazyVariants, alike
from ortpkg.package.package_info import (
    Constraints,
    PackageFormat,
    PackageInfo,
    VariantInfo,
    own_version,
    version_of,
)
from ortpkg.package.reader import open_package

_ROOT = Path("/package")


def make(name: str) -> VariantInfo:
    return VariantInfo(name=name, component_name="m", directory=_ROOT / name, model_path=None)


def lazy(*names: str) -> LazyVariants:
    return LazyVariants([Checked(name) for name in names])


CONSTRAINTS = {ep: Constraints(ep=ep) for ep in "ab"}


class Checked:
    """What was read of the variant ``name``, whose EP is the first letter of its name."""

    model_path = None
    session_options: Mapping[str, str] = EMPTY
    provider_options: Mapping[str, str] = EMPTY

    def __init__(self, name: str) -> None:
        self.name = name
        self.constraints = CONSTRAINTS[name[0]]
        self.made = 0

    def make(self) -> VariantInfo:
        self.made += 1
        return make(self.name)


def test_behaves_as_the_tuple_of_its_variants() -> None:
    made = (make("a1"), make("b1"), make("a2"))
    variants = lazy("a1", "b1", "a2")
    assert variants == made
    assert variants == lazy("a1", "b1", "a2")
    assert variants != made[:2]
    assert tuple(variants) == made
    assert (variants[1], variants[-1], variants[:2], len(variants)) == (
        made[1],
        made[2],
        made[:2],
        3,
    )
    assert hash(lazy()) == hash(())
    assert repr(variants) == repr(made)
    assert pickle.loads(pickle.dumps(variants)) == made


def test_makes_a_variant_once_and_only_where_somebody_looks() -> None:
    checked = [Checked("a1"), Checked("a2"), Checked("b1")]
    variants = LazyVariants(checked)
    assert len(variants) == 3
    assert [group.constraints.ep for group in alike(variants)] == ["a", "b"]
    assert [each.made for each in checked] == [0, 0, 0]
    assert variants[2] is variants[2]
    assert [each.made for each in checked] == [0, 0, 1]


def test_groups_positions_by_first_mention() -> None:
    assert [group.indices for group in alike(lazy("b1", "a1", "b2", "a2", "b3"))] == [
        [0, 2, 4],
        [1, 3],
    ]


def test_groups_variants_made_by_hand_by_what_they_state() -> None:
    def stating(ep: str, **options: str) -> VariantInfo:
        return replace(make("v"), constraints=Constraints(ep=ep), provider_options=options)

    variants = (
        stating("a"),
        stating("b"),
        stating("a"),
        stating("a", x="1"),
        stating("a", x="2"),
        stating("a", x="1"),
    )
    assert [group.indices for group in alike(variants)] == [[0, 2], [1], [3, 5], [4]]
    assert alike(variants)[3].provider_options == {"x": "2"}


def test_what_is_alike_states_the_same(tmp_path: Path) -> None:
    """Of an opened package: constraints and provider options, whatever else differs."""
    declared: list[dict[str, Any]] = [
        {
            "ep": "CUDAExecutionProvider",
            "device": device,
            "provider_options": options,
            "ortpkg": facts,
        }
        for device in ("gpu", "GPU")
        for options in ({}, {"device_id": "0"}, {"device_id": "1"})
        for facts in (None, {"constraints": {"architecture": "sm_90"}})
        for _ in range(2)
    ]
    bodies = {}
    for index, each in enumerate(declared):
        (tmp_path / f"v{index}").mkdir()
        (tmp_path / f"v{index}" / "model.onnx").touch()
        ort = {"model_file": "model.onnx", "provider_options": each["provider_options"]}
        bodies[f"v{index}"] = {
            "ep": each["ep"],
            "device": each["device"],
            "executor_info": {"ort": ort},
            **({"additional_metadata": {"ortpkg": each["ortpkg"]}} if each["ortpkg"] else {}),
        }
    manifest = {"schema_version": "1.0", "components": {"m": {"variants": bodies}}}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    variants = open_package(tmp_path).components[0].variants
    groups = alike(variants)
    assert sorted(place for group in groups for place in group.indices) == list(range(len(bodies)))
    assert len(groups) < len(bodies)
    for group in groups:
        for place in group.indices:
            assert variants[place].constraints == group.constraints
            assert variants[place].provider_options == group.provider_options
    assert variants[0].constraints == Constraints(ep="CUDAExecutionProvider", device="gpu")
    assert groups[0].indices == [0, 1]


def test_a_variant_has_its_own_version_where_it_states_one_and_else_the_packages() -> None:
    package = PackageInfo(
        root=_ROOT, format=PackageFormat.METADATA, name="p", version="2.0", components=()
    )
    stated: dict[str, dict[str, Any]] = {
        "own": {"version": "1.1"},
        "none": {},
        "empty": {"version": ""},
        "number": {"version": 3},
        "unknown": {"version": None},
    }
    variants = {name: replace(make(name), metadata=metadata) for name, metadata in stated.items()}

    assert {name: own_version(each) for name, each in variants.items()} == {
        "own": "1.1",
        "none": None,
        "empty": None,
        "number": None,
        "unknown": None,
    }
    assert version_of(variants["own"], package) == "1.1"
    assert version_of(variants["number"], package) == "2.0"
    assert version_of(variants["unknown"], package) is None
    assert version_of(variants["none"], replace(package, version=None)) is None
