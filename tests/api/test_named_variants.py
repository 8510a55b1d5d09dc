"""ModelPackage.variant: the variant that a program names, and a session on it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ortpkg
from ortpkg.foundations.errors import NoSuitableVariantError, UnknownComponentError

DIGITS = Path(__file__).parents[2] / "sample_packages" / "digits.ortpackage"
TINYCHAR = DIGITS.with_name("tinychar.ortpackage")


@pytest.fixture
def digits() -> ortpkg.ModelPackage:
    return ortpkg.ModelPackage(DIGITS)


@pytest.mark.parametrize("name", ["cpu-fp32", "cpu-int8"])
def test_a_session_runs_the_named_variant_whichever_is_best(
    digits: ortpkg.ModelPackage, name: str
) -> None:
    variant = digits.variant(name)

    session = variant.create_session(backend="embedded")

    assert variant.model_path is not None
    image = {"image": np.ones((1, 1, 8, 8), np.float32)}
    alone = ortpkg.InferenceSession(str(variant.model_path), providers=["CPUExecutionProvider"])
    assert np.array_equal(session.run(None, image)[0], alone.run(None, image)[0])
    assert {each.variant.name for each in variant.selection.verdicts} == {name}


def test_a_component_gives_its_variants_by_name(digits: ortpkg.ModelPackage) -> None:
    (classifier,) = digits.component_models

    assert classifier.variant("cuda").model_path == digits.variant("cuda").model_path


def test_a_variant_that_runs_nowhere_here_is_there_and_its_session_is_an_error_with_the_reasons(
    digits: ortpkg.ModelPackage,
) -> None:
    variant = digits.variant("openvino-npu")

    assert variant.directory.is_dir()
    with pytest.raises(
        NoSuitableVariantError,
        match=re.escape("variant 'openvino-npu' cannot run on this machine:\n  "),
    ):
        variant.create_session()


def test_an_unknown_name_lists_the_variants(digits: ortpkg.ModelPackage) -> None:
    with pytest.raises(
        UnknownComponentError,
        match=re.escape(
            "has no variant 'cpu-int4' (did you mean 'cpu-int8'?); it has 'cpu-fp32', "
        ),
    ):
        digits.variant("cpu-int4")


@pytest.mark.parametrize("ask", ["choose", "create_session"])
def test_a_variant_of_a_pipeline_needs_its_component_named(ask: str) -> None:
    """Also where each component has a variant of that name: they are different ones."""
    with pytest.raises(UnknownComponentError) as caught:
        getattr(ortpkg.ModelPackage(TINYCHAR), ask)(variant="cpu-fp32")

    assert str(caught.value) == (
        "variant 'cpu-fp32' of which component model? package 'tinychar' runs 2 of them"
        " ('prefill', 'decode'): name one"
    )
    assert caught.value.valid_names == ("prefill", "decode")


def test_a_variant_of_a_pipelines_component_is_chosen_alone() -> None:
    chosen = ortpkg.ModelPackage(TINYCHAR).choose("decode", variant="cpu-fp32")

    assert not chosen.is_pipeline
    assert [(name, each.name) for name, each in chosen.variants.items()] == [("decode", "cpu-fp32")]


def test_a_pipeline_of_one_component_takes_the_named_variant_of_it(
    digits: ortpkg.ModelPackage,
) -> None:
    package = ortpkg.ModelPackage.of(replace(digits.info, has_pipeline=True))

    chosen = package.choose(variant="cpu-int8")

    assert chosen.is_pipeline
    assert [each.name for each in chosen.variants.values()] == ["cpu-int8"]


def test_a_variant_named_alone_says_nothing_of_what_its_component_lacks(
    digits: ortpkg.ModelPackage,
) -> None:
    """The component has variants for a CPU; that the caller passed them over is no fault of it."""
    selection = digits.select(variant="cuda", profile="plain-server")

    assert selection.best is None
    assert not any("covers a CPU" in warning for warning in selection.warnings)
