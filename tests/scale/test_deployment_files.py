"""The files of deploy/ are what Kubernetes, KServe and container builders take."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kserve.models
import kubernetes.client
import pytest
import yaml

from tests.scale.serving_processes import ROOT

pytestmark = [pytest.mark.scale, pytest.mark.timeout(600)]

DEPLOY = ROOT / "deploy"
#: Texts to them; Kubernetes takes more, and says so where it does.
_PLAIN: dict[str, type | tuple[type, ...]] = {
    "str": str,
    "int": int,
    "bool": bool,
    "float": (int, float),
    "object": object,
    "datetime": str,
}


def check(kind: str, value: Any, where: str) -> None:
    """Asserts that ``value`` is of a type of their specifications, with no key that it has not."""
    if (inner := re.fullmatch(r"[lL]ist\[(.*)\]", kind)) is not None:
        assert isinstance(value, list), where
        for number, each in enumerate(value):
            check(inner[1], each, f"{where}[{number}]")
    elif (inner := re.fullmatch(r"[dD]ict[(\[]str, (.*)[)\]]", kind)) is not None:
        assert isinstance(value, dict), where
        for key, each in value.items():
            check(inner[1], each, f"{where}.{key}")
    elif kind in _PLAIN:
        assert isinstance(value, _PLAIN[kind]), f"{where} is no {kind}"
    else:
        model = getattr(kserve.models, kind, None) or getattr(kubernetes.client, kind)
        check_model(model, value, where)


def check_model(model: Any, value: Any, where: str) -> None:
    assert isinstance(value, dict), where
    names = {key: name for name, key in model.attribute_map.items()}
    for key, each in value.items():
        assert key in names, f"{where} has no {key}"
        check(model.openapi_types[names[key]], each, f"{where}.{key}")
    model(**{names[key]: each for key, each in value.items()})  # raises where one is missing


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("serving-runtime.yaml", "V1alpha1ServingRuntime"),
        ("inference-service.yaml", "V1beta1InferenceService"),
    ],
)
def test_kubernetes_and_kserve_know_every_key(file: str, kind: str) -> None:
    document = yaml.safe_load((DEPLOY / file).read_text())
    assert f"{document['apiVersion'].rpartition('/')[2]}{document['kind']}".lower() in kind.lower()
    check(kind, document, document["kind"])


@pytest.mark.parametrize("damage", [{"spce": {}}, {"spec": {"containers": "one"}}, {"spec": {}}])
def test_what_they_do_not_know_is_found(damage: dict[str, Any]) -> None:
    document = yaml.safe_load((DEPLOY / "serving-runtime.yaml").read_text())
    with pytest.raises((AssertionError, ValueError)):
        check("V1alpha1ServingRuntime", {**document, **damage}, "damaged")


def test_the_runtime_and_the_image_say_words_that_the_command_takes() -> None:
    runtime = yaml.safe_load((DEPLOY / "serving-runtime.yaml").read_text())
    (container,) = runtime["spec"]["containers"]
    entry = re.search(r'^ENTRYPOINT \["ortpkg", (.*)\]$', containerfile(), re.MULTILINE)
    assert entry is not None
    words = [word.strip(' "') for word in entry[1].split(",")] + container["args"]
    done = subprocess.run(
        [sys.executable, "-m", "ortpkg", *words, "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    help_text = re.sub(r"\s+", " ", done.stdout)
    for word in words:
        if word.startswith("--"):
            assert word.partition("=")[0] in help_text


def containerfile() -> str:
    return (DEPLOY / "Containerfile").read_text()


def test_a_linter_of_container_files_has_nothing_to_say() -> None:
    hadolint = shutil.which("hadolint", path=Path(sys.executable).parent)
    assert hadolint is not None, "tests/scale/requirements.txt names it"
    done = subprocess.run(
        [hadolint, DEPLOY / "Containerfile"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_what_the_image_copies_is_there() -> None:
    for line in re.findall(r"^COPY (?!--from)(.*)$", containerfile(), re.MULTILINE):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists(), source
