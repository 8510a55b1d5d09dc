"""Packages on two unlike nodes of a Ray cluster: each replica its own variant, and none missed."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import signal
import socket
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.http
import yaml
from tritonclient.utils import InferenceServerException

import ortpkg
from ortpkg.foundations.errors import InvalidFeedError
from ortpkg.scale.ray import package_app
from ortpkg.scale.ray.serve_app import build
from tests.scale.ray_clusters import DIGITS, NODE, ROOT, add_unlike_node, ray_cluster
from tests.scale.test_renewal import Asking, publish

pytestmark = [
    pytest.mark.scale,
    pytest.mark.shows("on a Ray cluster"),
    pytest.mark.timeout(900),
    # Ray leaves files and sockets open until its process ends.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

PAGE = ROOT / "docs" / "serving.md"
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


def install_versions(folder: Path) -> None:
    """Installs digits:2, and scale:1 to scale:3, of which the last does not as it says."""
    layout = folder / "digits"
    ortpkg.push(DIGITS, f"oci-layout:{layout}:2")
    ortpkg.install(f"oci-layout:{layout}:2", name="digits")
    layout = folder / "scale"
    for tag, factor, expected in (("1", 2.0, 2.0), ("2", 4.0, 4.0), ("3", 8.0, 9.0)):
        publish(layout, folder / tag, tag, factor=factor, expected=expected)
        ortpkg.install(f"oci-layout:{layout}:{tag}", name="scale", samples=True)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where Serve listens, on a cluster of two nodes; on one, the best variant failed once."""
    folder = tmp_path_factory.mktemp("nodes")
    with (
        pytest.MonkeyPatch.context() as monkeypatch,
        tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as ray_folder,
    ):
        monkeypatch.setenv("ORTPKG_STORE", str(folder / "store"))
        install_versions(folder)
        with ray_cluster(Path(ray_folder)) as cluster:
            cluster.add_node(**NODE)
            add_unlike_node(cluster, folder / "records", folder / "store", monkeypatch)
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
    return Application(f"{address}/one", serve.run(app, name="digits", route_prefix="/one"))


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


@pytest.mark.shows("each worker its own variant")
def test_each_replica_runs_the_variant_of_its_node(
    digits: Application, record_property: Callable[[str, object], None]
) -> None:
    replicas = digits.replicas(2).values()
    assert len({each["node"] for each in replicas}) == 2
    assert sorted(map(variants, replicas)) == [["cpu-fp32"], ["cpu-int8"]]
    record_property(
        "figures", "; ".join(f"{each['node']}: {', '.join(variants(each))}" for each in replicas)
    )


@pytest.mark.shows("clients of others")
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
        ("/v3", b"", 404, "/v3: "),
    ],
)
def test_a_wrong_request_is_told_what_is_wrong(
    digits: Application, path: str, body: bytes, status: int, reason: str
) -> None:
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(f"http://{digits.address}{path}", body)
    assert raised.value.code == status
    with raised.value as answer:
        assert reason in answer.read().decode()


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


def test_metrics_are_on_the_pages_of_nodes_by_their_names(digits: Application) -> None:
    import ray  # as above

    digits.logits()
    wanted = {"ray_ortpkg_request_seconds", "ray_ortpkg_run_seconds", "ray_ortpkg_responses_total"}
    deadline = time.monotonic() + _LONGEST_S
    found: set[str] = set()
    while not wanted <= found and time.monotonic() < deadline:
        for node in ray.nodes():
            place = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
            with contextlib.suppress(OSError), urllib.request.urlopen(place) as page:
                told = page.read().decode()
            found |= {name for name in wanted if name in told and 'variant="cpu-' in told}
        time.sleep(1)
    assert found == wanted


@pytest.mark.shows("new versions without a gap")
def test_a_newer_version_takes_over_and_one_that_fails_does_not(address: str) -> None:
    from ray import serve  # as above

    def run(tag: str) -> None:
        app = build({"packages": f"scale:{tag}", "deployment": ONE_EACH})
        serve.run(app, name="scale", route_prefix="/scale")

    def wait_for(version: str) -> None:
        count, ends = len(asking.versions), time.monotonic() + _LONGEST_S
        while version not in asking.versions[count:] and time.monotonic() < ends:
            time.sleep(0.05)

    run("1")
    asking = Asking(f"{address}/scale")
    try:
        wait_for("1")
        run("2")
        wait_for("2")
        with pytest.raises(RuntimeError):
            run("3")
        wait_for("2")
    finally:
        asking.end()
    serve.delete("scale")
    assert asking.errors == []
    assert set(asking.versions) == {"1", "2"}
    assert asking.versions[-1] == "2"


@pytest.mark.parametrize(
    ("device", "taken"),
    [("gpu", {"num_gpus": 1}), ("NPU", {"resources": {"NPU": 1}}), (None, {})],
)
def test_a_replica_takes_the_device_that_is_wished(
    device: str | None, taken: dict[str, Any]
) -> None:
    app = package_app("digits", device=device, threads=2)
    options = app._bound_deployment.ray_actor_options
    assert {"num_cpus": 2, **taken}.items() <= options.items()
    assert ("num_gpus" in options) is ("num_gpus" in taken)


@pytest.mark.shows("pages and manifests")
def test_the_part_of_the_page_for_ray_runs(address: str) -> None:
    section = PAGE.read_text(encoding="utf-8").partition("\n## On a Ray cluster\n")[2]
    python, config = (
        re.findall(rf"^```{language}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)[0]
        for language in ("python", "yaml")
    )
    names: dict[str, Any] = {}
    exec(python.replace('"num_replicas": 4', '"num_replicas": 1'), names)
    handle = names["handle"]
    assert handle.infer.remote({"image": IMAGE}).result()["logits"].shape == (1, 10)
    assert Application(address, handle).logits().shape == (1, 10)
    (stated,) = yaml.safe_load(config)["applications"]
    module, _, function = stated["import_path"].partition(":")
    app = getattr(importlib.import_module(module), function)(stated["args"])
    assert [each["name"] for each in stated["deployments"]] == [app._bound_deployment.name]
