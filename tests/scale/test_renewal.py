"""New versions without a gap: what is installed under a served name, while clients ask all the time."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
import tritonclient.http

import ortpkg
from tests.scale.serving_processes import Serving, serving

pytestmark = [
    pytest.mark.scale,
    pytest.mark.shows("new versions without a gap"),
    pytest.mark.timeout(600),
]


def publish(layout: Path, folder: Path, tag: str, *, factor: float, expected: float) -> None:
    """A package that multiplies by ``factor``, and says that it does by ``expected``."""
    folder.mkdir()
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        scale (float[N, 3] x) => (float[N, 3] y)
            <float factor = {{{factor}}}> {{ y = Mul(x, factor) }}"""
    )
    onnx.save(model, folder / "scale.onnx")
    root = folder / "scale.ortpackage"
    ortpkg.create(root, [ortpkg.NewVariant(model=folder / "scale.onnx", name="cpu", ep="cpu")])
    ones = np.ones((2, 3), np.float32)
    samples = ortpkg.SampleArrays(
        name="ones", inputs={"x": ones}, expected={"y": ones * expected}, is_batched=True
    )
    ortpkg.add_samples(root, samples)
    ortpkg.push(root, f"oci-layout:{layout}:{tag}")


class Asking:
    """A client that asks without a pause; it keeps the answers and the errors."""

    def __init__(self, address: str) -> None:
        self.versions: list[str] = []
        self.errors: list[Exception] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._ask, args=(address,))
        self._thread.start()

    def _ask(self, address: str) -> None:
        given = tritonclient.http.InferInput("x", [1, 3], "FP32")
        given.set_data_from_numpy(np.ones((1, 3), np.float32))
        with tritonclient.http.InferenceServerClient(address) as client:
            while not self._is_over.is_set():
                try:
                    answer = client.infer("scale", [given])
                except Exception as error:  # noqa: BLE001 - none may come at all
                    self.errors.append(error)
                    continue
                self.versions.append(answer.get_response()["model_version"])
                factor = {"1": 2.0, "2": 4.0}[self.versions[-1]]
                if not np.all(answer.as_numpy("y") == factor):
                    self.errors.append(AssertionError(f"{answer.as_numpy('y')}"))

    def end(self) -> None:
        """Asks no more."""
        self._is_over.set()
        self._thread.join()


def event(server: Serving, name: str) -> dict[str, Any]:
    """The first event of that name, which is waited for."""
    ends = time.monotonic() + 120
    while time.monotonic() < ends:
        for each in list(server.events):
            if each["event"] == name:
                return each
        time.sleep(0.05)
    raise AssertionError(f"no {name} among {[each['event'] for each in server.events]}")


def test_clients_see_a_new_version_and_no_error(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    monkeypatch.setenv("ORTPKG_STORE", str(tmp_path / "store"))
    layout = tmp_path / "layout"
    for tag, factor, expected in (("1", 2.0, 2.0), ("2", 4.0, 4.0), ("3", 8.0, 9.0)):
        publish(layout, tmp_path / tag, tag, factor=factor, expected=expected)

    def switch(tag: str) -> None:
        ortpkg.install(f"oci-layout:{layout}:{tag}", name="scale", samples=True)

    switch("1")
    with serving("scale", "--batch-latency", "50ms") as server:
        asking = Asking(server.http)
        try:
            switch("2")
            assert event(server, "renewed")["now"] == "scale:2"
            switch("3")
            kept = event(server, "kept")
            time.sleep(0.5)
        finally:
            asking.end()
        assert "samples" in kept["message"]
        assert asking.errors == []
        assert sorted(set(asking.versions)) == ["1", "2"]
        assert asking.versions == sorted(asking.versions)
        assert server.end() == 0
    counts = Counter(asking.versions)
    record_property(
        "figures", f"version 1: {counts['1']:,} answers, then 2: {counts['2']:,}; no error"
    )
