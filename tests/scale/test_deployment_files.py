"""The files of deploy/ are what Kubernetes, KServe and container builders take."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.scale.serving_processes import ROOT

pytestmark = [
    pytest.mark.scale,
    pytest.mark.shows("pages and manifests"),
    pytest.mark.timeout(600),
]

DEPLOY = ROOT / "deploy"


def checked(kind: str, document: Any) -> subprocess.CompletedProcess[str]:
    """Whether KServe knows a manifest as one of that kind."""
    return subprocess.run(
        [sys.executable, "-m", "tests.scale.kubernetes_check", kind],
        input=yaml.safe_dump(document),
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("serving-runtime.yaml", "V1alpha1ServingRuntime"),
        ("inference-service.yaml", "V1beta1InferenceService"),
    ],
)
def test_kubernetes_and_kserve_know_every_key(file: str, kind: str) -> None:
    document = yaml.safe_load((DEPLOY / file).read_text())
    assert f"{document['apiVersion'].rpartition('/')[2]}{document['kind']}".lower() == kind.lower()
    done = checked(kind, document)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("damage", [{"spce": {}}, {"spec": {"containers": "one"}}, {"spec": {}}])
def test_what_they_do_not_know_is_found(damage: dict[str, Any]) -> None:
    document = yaml.safe_load((DEPLOY / "serving-runtime.yaml").read_text())
    done = checked("V1alpha1ServingRuntime", {**document, **damage})
    assert done.returncode == 1
    assert "AssertionError" in done.stderr or "ValueError" in done.stderr


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
