"""Policies and functions that choose the devices of a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

import ortpkg
from ortpkg.foundations.errors import UsageError
from tests.session.conftest import model_of

_MODEL = model_of("g (float[2] x) => (float[2] y) { y = Neg(x) }").SerializeToString()


def session_of(options: ortpkg.SessionOptions) -> ortpkg.InferenceSession:
    session = ortpkg.InferenceSession(_MODEL, options)
    assert session.run(None, {"x": np.ones(2, np.float32)})[0].tolist() == [-1, -1]
    return session


@pytest.mark.parametrize("policy", list(ortpkg.OrtExecutionProviderDevicePolicy))
def test_a_policy_chooses_what_is_there(policy: ortpkg.OrtExecutionProviderDevicePolicy) -> None:
    options = ortpkg.SessionOptions()
    options.set_provider_selection_policy(policy)
    assert options.has_providers()
    offered = {device.ep_name for device in ortpkg.get_ep_devices()}
    assert set(session_of(options).get_providers()) <= offered


def test_a_function_chooses_by_what_it_is_told() -> None:
    told: list[tuple[int, Mapping[str, str], int]] = []

    def choose(
        devices: Sequence[ortpkg.OrtEpDevice],
        model: Mapping[str, str],
        runtime: Mapping[str, str],
        most: int,
    ) -> Sequence[ortpkg.OrtEpDevice]:
        told.append((len(devices), model, most))
        return [each for each in devices if each.ep_name == "CPUExecutionProvider"]

    options = ortpkg.SessionOptions()
    options.set_provider_selection_policy_delegate(choose)
    assert session_of(options).get_providers() == ["CPUExecutionProvider"]
    ((count, model, most),) = told
    assert (count, model["graph_name"], most > 0) == (len(ortpkg.get_ep_devices()), "g", True)


def test_a_function_must_choose_of_what_it_was_given() -> None:
    options = ortpkg.SessionOptions()
    options.set_provider_selection_policy_delegate(lambda *_: [])
    with pytest.raises(UsageError, match="chose 0 devices"):
        session_of(options)
    stranger = object()
    options.set_provider_selection_policy_delegate(lambda *_: [stranger])
    with pytest.raises(
        UsageError, match=r"chose '<object.*', which is none of the devices it was given"
    ):
        session_of(options)
    with pytest.raises(TypeError, match="a delegate is a function"):
        options.set_provider_selection_policy_delegate(3)  # type: ignore[arg-type]


def test_providers_that_are_added_come_before_a_policy() -> None:
    options = ortpkg.SessionOptions()
    options.set_provider_selection_policy(ortpkg.OrtExecutionProviderDevicePolicy.PREFER_GPU)
    options.add_provider("CPUExecutionProvider", {})
    assert session_of(options).get_providers() == ["CPUExecutionProvider"]
