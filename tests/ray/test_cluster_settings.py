"""Clusters of our own: who may join, and where they listen; Ray itself is `make scale`'s."""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from ortpkg.foundations.errors import ClusterError, UsageError
from ortpkg.scale.ray import cluster

ROOT = Path(__file__).parents[2]


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A Ray that notes what it is started with; its node is where it is told to be."""
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    private = ModuleType("ray._private")
    constants = SimpleNamespace(ENABLE_RAY_CLUSTER=True)
    private.ray_constants = constants  # type: ignore[attr-defined]
    made = ModuleType("ray")
    noted: dict[str, Any] = {}

    def init(**given: Any) -> None:
        noted.update(given)
        noted["several"] = constants.ENABLE_RAY_CLUSTER
        noted["environment"] = dict(os.environ)

    attributes: dict[str, Any] = {
        "__version__": "2.60.0",
        "noted": noted,
        "init": init,
        "shutdown": lambda: None,
        "is_initialized": lambda: False,
        "util": SimpleNamespace(get_node_ip_address=lambda: "127.0.0.1"),
    }
    for name, value in attributes.items():
        setattr(made, name, value)
    monkeypatch.setattr(cluster, "load_ray", lambda: made)
    monkeypatch.setitem(sys.modules, "ray", made)
    monkeypatch.setitem(sys.modules, "ray._private", private)
    return made


def test_a_cluster_is_on_loopback_and_asks_for_a_token(ray: Any) -> None:
    with cluster.cluster(None, 1):
        pass
    noted = ray.noted
    assert (noted["_node_ip_address"], noted["include_dashboard"]) == ("127.0.0.1", False)
    assert noted["several"] is False
    environment = noted["environment"]
    assert environment["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] == "0"
    assert environment["RAY_AUTH_MODE"] == "token"
    assert len(environment["RAY_AUTH_TOKEN"]) == 64
    assert "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER" not in os.environ


def test_a_mode_of_the_user_without_tokens_does_not_hold_for_it(
    ray: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with cluster.cluster(None, 1):
        pass
    assert ray.noted["environment"]["RAY_AUTH_MODE"] == "token"


def test_a_cluster_that_others_reach_is_not_used(ray: Any) -> None:
    ray.util.get_node_ip_address = lambda: "192.0.2.7"
    with (
        pytest.raises(ClusterError, match=r"listens on 192\.0\.2\.7, where other machines"),
        cluster.cluster(None, 1),
    ):
        pytest.fail("it must not be used")


def test_a_ray_without_tokens_is_refused(ray: Any) -> None:
    ray.__version__ = "2.51.1"
    with (
        pytest.raises(UsageError, match=r"Ray 2\.51\.1 lets every user .* install 2\.52 or newer"),
        cluster.cluster(None, 1),
    ):
        pytest.fail("it must not be used")
    assert not ray.noted


def test_the_extra_has_the_same_bound() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    bounds = [Requirement(each) for each in project["optional-dependencies"]["ray"]]
    (bound,) = [each.specifier for each in bounds if each.name == "ray"]
    assert Version("2.51.1") not in bound
    assert Version("2.52") in bound
