"""The digits package as ortpkg reads it: no findings, samples where documents say."""

from __future__ import annotations

import pytest

from ortpkg.authoring.package_checks import validate
from ortpkg.package.formats.samples import DisplayKind, check_samples, read_samples
from ortpkg.package.package_info import Constraints
from ortpkg.package.reader import open_package
from tests.sample_packages.conftest import DIGITS, VARIANTS


def test_validate_finds_nothing_wrong() -> None:
    # both CPU variants are for every CPU
    assert [finding.rule for finding in validate(DIGITS)] == [
        "ORT202"
    ]
    assert check_samples(open_package(DIGITS)) == ()


@pytest.mark.requirement("K20")
def test_package_states_its_overall_inputs_and_outputs() -> None:
    package = open_package(DIGITS)
    assert [
        (value.name, value.type, value.shape) for value in (*package.inputs, *package.outputs)
    ] == [
        ("image", "tensor(float)", ("batch", 1, 8, 8)),
        ("logits", "tensor(float)", ("batch", 10)),
    ]


@pytest.mark.requirement("K05")
def test_variants_carry_their_constraints_in_declaration_order() -> None:
    (component,) = open_package(DIGITS).components
    assert {variant.name: variant.constraints for variant in component.variants} == {
        "cpu-fp32": Constraints(ep="CPUExecutionProvider", device="cpu"),
        "cpu-int8": Constraints(ep="CPUExecutionProvider", device="cpu"),
        "openvino-npu": Constraints(ep="OpenVINOExecutionProvider", device="npu"),
        "openvino-gpu": Constraints(ep="OpenVINOExecutionProvider", device="gpu"),
        "cuda": Constraints(ep="CUDAExecutionProvider", device="gpu"),
    }
    assert tuple(variant.name for variant in component.variants) == VARIANTS


def test_samples_show_the_most_likely_digit_and_know_the_right_one() -> None:
    (sample,) = read_samples(open_package(DIGITS))
    assert sample.labels is not None
    assert sample.labels.file.is_file()
    assert sample.display is not None
    assert (sample.display.output, sample.display.kind) == ("logits", DisplayKind.CLASS)
    assert sample.display.classes == tuple("0123456789")


def test_integers_get_a_wider_tolerance_than_floats() -> None:
    (sample,) = read_samples(open_package(DIGITS))
    tolerances = {variant: sample.tolerance("logits", variant=variant) for variant in VARIANTS}
    assert all(tolerances.values())
    absolute = {
        variant: tolerance.absolute for variant, tolerance in tolerances.items() if tolerance
    }
    assert absolute["cpu-fp32"] < absolute["cuda"] < absolute["openvino-npu"] < absolute["cpu-int8"]
