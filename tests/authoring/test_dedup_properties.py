"""dedup on random packages: weights keep their bytes, and none is twice in a component."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from onnx import numpy_helper

from ortpkg.authoring.model_weights import read_model_weights
from ortpkg.authoring.sharing.component_folders import ranges_of
from ortpkg.authoring.sharing.contents import read_contents
from ortpkg.authoring.sharing.dedup import dedup
from ortpkg.package.integrity.digest_check import check_digests
from ortpkg.package.reader import open_package
from tests.authoring.weight_models import Array, make_model, make_package, nbytes_of, weight

#: What one variant is made of: the seeds of its weights, how it packs them, and which lie in the
#: model.
VARIANTS = st.lists(
    st.fixed_dictionaries(
        {
            "seeds": st.lists(st.integers(0, 5), min_size=1, max_size=4),
            "padding": st.sampled_from([0, 4, 64, 4096]),
            "location": st.sampled_from(["weights.bin", "data/w.bin", "MODEL.data", "model.data"]),
            "is_reversed": st.booleans(),
            "embedded": st.integers(0, 2),
        }
    ),
    min_size=2,
    max_size=5,
)


def weights_of(path: Path) -> dict[str, Array]:
    """Name → value of every initializer, as the onnx package reads it."""
    return {
        tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer
    }


def models_of(root: Path) -> dict[str, Path]:
    variants = open_package(root).components[0].variants
    return {
        variant.name: variant.model_path for variant in variants if variant.model_path is not None
    }


def stored_twice(root: Path, *, within_a_file: bool) -> list[str]:
    """Contents of 1 KiB and more at two places of data files, or (``within_a_file``) of one."""
    weights = [read_model_weights(path) for path in dict.fromkeys(models_of(root).values())]
    ranges = dict.fromkeys(data for data in ranges_of(weights, None) if data.nbytes >= 1024)
    contents = read_contents(ranges)
    places = [(key, data) if within_a_file else (key, data.path) for data, key in contents.items()]
    keys = [key for key, _ in dict.fromkeys(places)]
    return [key for key in dict.fromkeys(keys) if keys.count(key) > 1]


@pytest.mark.requirement("K23")
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@example(
    variants=[
        {
            "seeds": [0],
            "padding": 0,
            "location": "weights.bin",
            "is_reversed": False,
            "embedded": 0,
        },
        {
            "seeds": [0, 0, 1],
            "padding": 0,
            "location": "weights.bin",
            "is_reversed": False,
            "embedded": 2,
        },
    ],
    layout="shared-weights",
    moves_out=True,
)
@given(
    variants=VARIANTS,
    layout=st.sampled_from(["common-directory", "shared-weights"]),
    moves_out=st.booleans(),
)
def test_every_weight_keeps_its_bytes_and_none_is_stored_twice(
    variants: list[dict[str, object]], layout: str, moves_out: bool, locks_of_this_test: Path
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        models = {}
        for index, variant in enumerate(variants):
            seeds = variant["seeds"]
            assert isinstance(seeds, list)
            weights = {f"w{position}": weight(seed) for position, seed in enumerate(seeds)}
            names = list(weights)
            models[f"v{index}"] = make_model(
                Path(folder, f"v{index}"),
                weights,
                packing=names[::-1] if variant["is_reversed"] else names,
                embedded=names[: int(str(variant["embedded"]))],
                padding=int(str(variant["padding"])),
                location=str(variant["location"]),
            )
        root = make_package(Path(folder, "p.ortpackage"), models)
        before = {name: weights_of(path) for name, path in models_of(root).items()}
        nbytes = nbytes_of(root)

        report = dedup(root, layout=layout, externalize_nbytes=1024 if moves_out else None)

        assert nbytes - nbytes_of(root) == report.saved_nbytes >= 0
        after = {name: weights_of(path) for name, path in models_of(root).items()}
        for name, arrays in before.items():
            assert arrays.keys() == after[name].keys()
            for key, array in arrays.items():
                np.testing.assert_array_equal(array, after[name][key])
        # A variant that shares nothing keeps its own files in the layout that the documents
        # describe.
        assert stored_twice(root, within_a_file=layout == "common-directory") == []
        assert check_digests(root) == ()
        assert dedup(root, layout=layout).saved_nbytes == 0
