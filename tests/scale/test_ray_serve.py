"""Packages on two unlike nodes of a Ray cluster: each replica its own variant, and none missed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.http
from tritonclient.utils import InferenceServerException

import ortpkg
from ortpkg.errors import InvalidFeedError
from ortpkg.ray import package_app
from ortpkg.ray.serve_app import build
from tests.scale.ray_clusters import DIGITS, NODE, add_unlike_node, ray_cluster

pytestmark = [
    pytest.mark.scale,
    pytest.mark.timeout(900),
    # Ray leaves files and sockets open until its process ends.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

IMAGE = np.random.default_rng(0).random((1, 1, 8, 8), np.float32)
ONE_EACH = {"num_replicas": 2, "max_replicas_per_node": 1}
_LONGEST_S = 120


@dataclass
class Application:
    """An application that answers: by HTTP at ``address``, by calls of its ``handle``."""

    address: str
    handle: Any

    def replicas(self, count: int) -> dict[int, dict[str, Any]]:
        """Process → what a replica says of itself, once so many of them are there."""
        found: dict[int, dict[str, Any]] = {}
        deadline = time.monotonic() + _LONGEST_S
        while len(found) < count and time.monotonic() < deadline:
            told = self.handle.describe.remote().result()
            found[told["pid"]] = told
        return found

    def logits(self) -> Any:
        """The answer to a request by HTTP."""
        given = tritonclient.http.InferInput("image", list(IMAGE.shape), "FP32")
        given.set_data_from_numpy(IMAGE)
        with tritonclient.http.InferenceServerClient(self.address) as client:
            return client.infer("digits", [given]).as_numpy("logits")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where Serve listens, on a cluster of two nodes; on one, the best variant failed once."""
    with (
        tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder,
        ray_cluster(Path(folder)) as cluster,
        pytest.MonkeyPatch.context() as monkeypatch,
    ):
        cluster.add_node(**NODE)
        add_unlike_node(cluster, tmp_path_factory.mktemp("records"), monkeypatch)
        import ray  # after its settings
        from ray import serve

        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        # Every node is this machine: a proxy on each would want the same port.
        serve.start(proxy_location="HeadOnly", http_options={"host": "127.0.0.1", "port": port})
        yield f"127.0.0.1:{port}"
        serve.shutdown()
        ray.shutdown()


@pytest.fixture(scope="module")
def digits(address: str) -> Application:
    from ray import serve  # as above

    app = package_app(DIGITS, backend="embedded", deployment=ONE_EACH)
    return Application(address, serve.run(app, name="digits", route_prefix="/"))


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    """Variant → its answer."""
    found = {}
    for name in ("cpu-fp32", "cpu-int8"):
        session = ortpkg.ModelPackage(DIGITS).create_session(variant=name, backend="embedded")
        (found[name],) = session.run(None, {"image": IMAGE})
    return found


def variants(replica: dict[str, Any]) -> list[str]:
    return [each["variant"] for model in replica["models"] for each in model["variants"]]


def answered_by(logits: Any, expected: dict[str, Any]) -> str:
    return next(name for name, each in expected.items() if np.array_equal(each, logits))


def test_each_replica_runs_the_variant_of_its_node(digits: Application) -> None:
    replicas = digits.replicas(2).values()
    assert len({each["node"] for each in replicas}) == 2
    assert sorted(map(variants, replicas)) == [["cpu-fp32"], ["cpu-int8"]]


def test_tritonclient_gets_what_a_session_gives(
    digits: Application, expected: dict[str, Any]
) -> None:
    assert {answered_by(digits.logits(), expected) for _ in range(60)} == set(expected)
    with tritonclient.http.InferenceServerClient(digits.address) as client:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("digits", "1.0.0")
        assert client.get_model_metadata("digits") == {
            "name": "digits",
            "versions": ["1.0.0"],
            "platform": "onnx_ortpkg",
            "inputs": [{"name": "image", "datatype": "FP32", "shape": [-1, 1, 8, 8]}],
            "outputs": [{"name": "logits", "datatype": "FP32", "shape": [-1, 10]}],
        }
        assert client.get_server_metadata()["name"] == "ortpkg"


@pytest.mark.parametrize(
    ("path", "body", "status", "reason"),
    [
        ("/v2/models/digit/infer", b'{"inputs": []}', 404, "did you mean"),
        ("/v2/models/digits/versions/9/infer", b'{"inputs": []}', 404, "no version"),
        ("/v2/models/digits/infer", b"{", 400, "no JSON"),
        ("/v2/models/digits/infer", b'{"inputs": []}', 400, "is missing"),
        ("/v2/models/digits/generate", b'{"image": [1, 2]}', 400, "image"),
        ("/v3", b"", 404, "POST /v3"),
    ],
)
def test_a_wrong_request_is_told_what_is_wrong(
    digits: Application, path: str, body: bytes, status: int, reason: str
) -> None:
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(f"http://{digits.address}{path}", body)
    assert raised.value.code == status
    assert reason in raised.value.read().decode()


def test_a_handle_gives_arrays_and_our_errors(
    digits: Application, expected: dict[str, Any]
) -> None:
    outputs = digits.handle.infer.remote({"image": IMAGE.tolist()}).result()
    assert answered_by(outputs["logits"], expected)
    with pytest.raises(InvalidFeedError, match="imag"):
        digits.handle.infer.remote({"imag": IMAGE}).result()


def test_requests_go_on_where_a_replica_is_killed(
    digits: Application, expected: dict[str, Any]
) -> None:
    before = digits.replicas(2)
    os.kill(next(iter(before)), signal.SIGKILL)
    failed = 0
    for _ in range(200):
        try:
            assert answered_by(digits.logits(), expected)
        except InferenceServerException:
            failed += 1
    assert failed <= 1  # what ran there
    after = digits.replicas(2)
    assert len(after.keys() - before.keys()) == 1
    assert sorted(map(variants, after.values())) == [["cpu-fp32"], ["cpu-int8"]]


def test_a_newer_version_takes_over_and_one_that_fails_does_not(
    address: str, tmp_path: Path
) -> None:
    from ray import serve  # as above

    packages = {}
    for version in ("1.0.0", "2.0.0"):
        packages[version] = tmp_path / f"{version}.ortpackage"
        shutil.copytree(DIGITS, packages[version])
        ortpkg.edit(packages[version], ortpkg.PackageEdits(version=version))
    served = []

    def run(package: Path) -> None:
        args = {"packages": str(package), "deployment": {"health_check_period_s": 1}}
        serve.run(build(args), name="newer", route_prefix="/newer")

    def answering() -> str:
        with urllib.request.urlopen(f"http://{address}/newer/v2/models/digits") as answer:
            return str(json.load(answer)["versions"])

    run(packages["1.0.0"])
    served.append(answering())
    run(packages["2.0.0"])
    served.append(answering())
    with pytest.raises(RuntimeError, match="newer"):
        run(tmp_path / "nothing.ortpackage")
    served.append(answering())
    serve.delete("newer")
    assert served == ["['1.0.0']", "['2.0.0']", "['2.0.0']"]
