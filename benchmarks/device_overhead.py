"""A plug-in EP of onnxruntime through ortpkg against onnxruntime with the same EP, on its device.

    python -m benchmarks.device_overhead [--ep NAME] [--budget S] [KIND ...]

Without a graphics card, ``python -m tests.vendors.software_gpu -- `` goes before it. For each kind
of model of ``tests.vendors.device_models``: a run on arrays, and a run on values that lie on the
device and whose outputs stay there (one of them is read, so that the device has done its work).
Goal: a median ratio of at most 1.05 for runs of more than 1 ms, and at most 50 µs more for smaller
ones.
"""

from __future__ import annotations

import argparse
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnxruntime

import ortpkg
from benchmarks.paired import Timing, time_in_turns
from ortpkg.foundations.ep_names import resolve_ep_name
from ortpkg.runtime.providers.ep_discovery.ep_libraries import ep_library_of
from ortpkg.runtime.providers.onnxruntime_turns import turn
from tests.vendors.device_models import DEVICE_MODELS, DeviceModel

_GOAL_RATIO = 1.05
_SMALL_S = 0.001
_GOAL_S = 50e-6
#: Heavy and light, and those whose values lie on the device throughout.
_DEFAULT_KINDS = (
    "convolutional",
    "segmentation",
    "attention",
    "decoder-step",
    "recurrent",
    "four-bits",
)
#: A name that has no vendor in any package of onnxruntime; onnxruntime-gpu takes "gpu" for CUDA's.
_DEVICE = "webgpu"


class _Runs(ABC):
    """Runs of one model through a library on the device of an execution provider.

    Args:
        session: has the API of onnxruntime's sessions.
        model: with the arrays that it is fed.
        to_device: takes an array and returns a value of the library on the device.
    """

    def __init__(self, session: Any, model: DeviceModel, to_device: Callable[..., Any]) -> None:
        self._session = session
        self._feeds = dict(model.feeds)
        self._names = [value.name for value in session.get_outputs()]
        self._values = {name: to_device(array) for name, array in self._feeds.items()}

    @abstractmethod
    def _read(self, value: Any) -> Any:
        """Return a value on the device as an array."""

    def run(self) -> Any:
        """Run on arrays; return all outputs as arrays."""
        return self._session.run(None, self._feeds)

    def run_bound(self) -> Any:
        """Run on values on the device and leave the outputs there; return the first's array."""
        binding = self._session.io_binding()
        for name, value in self._values.items():
            binding.bind_ortvalue_input(name, value)
        for name in self._names:
            binding.bind_output(name, _DEVICE)
        self._session.run_with_iobinding(binding)
        (first, *_) = binding.get_outputs()
        return self._read(first)


class _Peer(_Runs):
    """Runs through onnxruntime alone."""

    def __init__(self, model: DeviceModel, ep_name: str) -> None:
        library = ep_library_of(ep_name)
        assert library is not None, f"no wheel here brings {ep_name}"
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        ep_devices = onnxruntime.get_ep_devices()
        own = [ep_device for ep_device in ep_devices if ep_device.ep_name == ep_name]
        options.add_provider_for_devices(own[:1], {})
        with turn(ep_name):
            session = onnxruntime.InferenceSession(
                model.model.SerializeToString(), options, enable_fallback=0
            )
        super().__init__(
            session,
            model,
            lambda array: onnxruntime.OrtValue.ortvalue_from_numpy(array, _DEVICE, 0),
        )

    def _read(self, value: Any) -> Any:
        target = np.empty(value.shape(), np.float32)
        onnxruntime.copy_tensors([value], [onnxruntime.OrtValue.ortvalue_from_numpy(target)])
        return target


class _Own(_Runs):
    """Runs through ortpkg."""

    def __init__(self, model: DeviceModel, ep_name: str) -> None:
        data = model.model.SerializeToString()
        session = ortpkg.InferenceSession(data, providers=[ep_name], enable_fallback=False)
        super().__init__(
            session, model, lambda array: ortpkg.OrtValue.ortvalue_from_numpy(array, _DEVICE)
        )

    def _read(self, value: Any) -> Any:
        return value.numpy()


def compare(kind: str, ep_name: str, budget_s: float) -> Mapping[str, tuple[Timing, float]]:
    """Return, by the way of running, our timing relative to onnxruntime's, and its seconds."""
    model = DEVICE_MODELS[kind]()
    own = _Own(model, ep_name)
    peer = _Peer(model, ep_name)
    np.testing.assert_allclose(own.run()[0], peer.run()[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(own.run_bound(), peer.run_bound(), rtol=1e-5, atol=1e-5)
    ways: Mapping[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "arrays": (own.run, peer.run),
        "on the device": (own.run_bound, peer.run_bound),
    }
    compared = {}
    for way, (ours, theirs) in ways.items():
        timings = time_in_turns(
            {"direct": theirs, "ortpkg": ours},
            baseline="direct",
            budget_s=budget_s,
            least_rounds=15,
        )
        compared[way] = timings["ortpkg"], timings["direct"].median_s
    return compared


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(DEVICE_MODELS))
    parser.add_argument("--ep", default="webgpu", help="the execution provider")
    parser.add_argument("--budget", type=float, default=5.0, help="seconds for each model and way")
    arguments = parser.parse_args()
    for kind in arguments.kinds or _DEFAULT_KINDS:
        compared = compare(kind, resolve_ep_name(arguments.ep), arguments.budget)
        for way, (own, direct_s) in compared.items():
            is_met = own.added_s <= _GOAL_S if direct_s < _SMALL_S else own.ratio <= _GOAL_RATIO
            print(
                f"{kind}, {way}: {direct_s * 1000:.3f} ms directly, {own.ratio:.3f} times that"
                f" ({own.ratio_low:.3f} to {own.ratio_high:.3f}), {own.added_s * 1e6:+.1f} µs:"
                f" {'met' if is_met else 'missed'}"
            )


if __name__ == "__main__":
    main()
