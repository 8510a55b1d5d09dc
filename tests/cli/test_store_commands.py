"""The commands on the store: install, pull, list, show, upgrade, history, rollback, uninstall, gc."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import ortpkg as ort
from ortpkg.machine.profiles import read_profile
from ortpkg.package.trust.signing.signing_keys import new_private_key
from ortpkg.runtime.providers.machine_offer import offer_of_profile
from ortpkg.selection.choosing import package_selection
from tests.cli.conftest import DIGITS, RunCommand

pytestmark = pytest.mark.usefixtures("warm_processes")

REFERENCE = "oci-layout:shared"


@pytest.fixture(autouse=True)
def _shop(ortpkg: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A layout with two versions of digits, of which the first is latest and installed."""
    monkeypatch.setenv("ORTPKG_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    newer = shutil.copytree(DIGITS, tmp_path / "newer.ortpackage")
    ort.edit(newer, ort.PackageEdits(version="2.0"))
    assert ortpkg("push", DIGITS, REFERENCE, "--tag", "1.0", "--tag", "latest").code == 0
    done = ortpkg("install", REFERENCE, "--profile", "plain-server", "--name", "digits")
    assert done.code == 0, done.err
    assert "classifier/cpu-fp32 for machine plain-server" in done.err


def test_what_is_installed_is_taken_by_its_name(ortpkg: RunCommand, tmp_path: Path) -> None:
    (listed,) = ortpkg("list", "--json").json["packages"]
    assert (listed["name"], listed["tag"]) == ("digits", "latest")
    assert listed["nbytes"] < listed["full_nbytes"] / 2
    shown = ortpkg("show", "digits", "--json").json
    assert "models/classifier/cuda/model.onnx" in shown["absent"]
    assert "cpu-fp32" in ortpkg("select", "digits").out
    refused = ortpkg("edit", "digits", "--model-version", "3")
    assert refused.code == 2
    assert "ortpkg pull digits -o FOLDER makes a copy" in refused.err
    assert ortpkg("pull", "digits", "-o", tmp_path / "copy.ortpackage").code == 0
    assert ortpkg("edit", tmp_path / "copy.ortpackage", "--model-version", "3").code == 0
    assert ortpkg("verify", tmp_path / "copy.ortpackage").code == 0


def test_commands_that_read_every_file_fetch_every_file(ortpkg: RunCommand, tmp_path: Path) -> None:
    sparse = ortpkg("diff", "digits", DIGITS)
    assert sparse.code == 4
    assert "ortpkg pull REF -o FOLDER --all-variants --samples fetches all" in sparse.err

    assert ortpkg("diff", REFERENCE, DIGITS).code == 0
    assert ortpkg("push", REFERENCE, "oci-layout:mirror:1.0").code == 0
    assert ortpkg("pack", REFERENCE, "-o", tmp_path / "all.ortpkg").code == 0
    assert ortpkg("show", "digits", "--json").json["absent"]  # the name means what it meant


def test_an_installed_package_is_measured_by_its_name(ortpkg: RunCommand) -> None:
    words = ("--backend", "embedded", "--repeat", "1", "--rounds", "1", "--json")

    done = ortpkg("bench", "digits", *words)

    assert [each["variant"] for each in done.json["results"]] == ["cpu-fp32"], done.err


@pytest.mark.parametrize("named", ["digits", REFERENCE, "http://127.0.0.1:9/digits.ortpkg"])
def test_only_a_file_that_is_here_is_unpacked(ortpkg: RunCommand, named: str) -> None:
    done = ortpkg("unpack", named)

    assert done.code == 2
    assert f"ortpkg pull {named} -o FOLDER --all-variants --samples" in done.err


def test_samples_that_are_not_here_are_said_to_be_elsewhere(ortpkg: RunCommand) -> None:
    done = ortpkg("run", "digits")

    assert done.code == 2
    assert "has samples, which are not here (ortpkg install oci-layout:" in done.err
    assert "--samples fetches them)" in done.err


def test_a_newer_version_and_the_way_back(ortpkg: RunCommand) -> None:
    assert ortpkg("outdated").code == 0
    ortpkg("push", "newer.ortpackage", REFERENCE, "--tag", "2.0", "--tag", "latest")

    assert ortpkg("outdated").code == 1
    assert "would become" in ortpkg("upgrade", "--dry-run").out
    assert ortpkg("show", "digits", "--json").json["generation"] == 1
    (upgraded,) = ortpkg("upgrade", "--json").json["packages"]
    assert upgraded["generation"] == 2
    assert "is current" in ortpkg("upgrade", "digits").out
    assert "2.0" in ortpkg("inspect", "digits").out
    assert ortpkg("rollback", "digits").code == 0
    assert "1.0" in ortpkg("inspect", "digits").out
    history = ortpkg("history", "digits", "--json").json["generations"]
    assert [(each["generation"], each["in_use"]) for each in history] == [(2, False), (1, True)]


def test_what_is_uninstalled_goes(ortpkg: RunCommand, tmp_path: Path) -> None:
    assert ortpkg("uninstall", "digits").code == 0
    assert ortpkg("show", "digits").code == 4
    kept = ortpkg("gc", "--dry-run", "--now", "--json").json
    assert kept["nbytes_freed"] > 0
    assert ortpkg("gc", "--now").code == 0
    assert list((tmp_path / "store" / "blobs" / "sha256").iterdir()) == []


def test_select_says_that_another_variant_would_be_chosen_now(
    ortpkg: RunCommand,
) -> None:
    assert "absent" not in ortpkg("select", "digits").err
    ortpkg("install", REFERENCE, "--name", "digits", "--variant", "cpu-int8")

    told = ortpkg("select", "digits").err

    assert "classifier: cpu-fp32 would be chosen here, and its files are absent: ortpkg in" in told
    assert "absent" not in ortpkg("select", "digits", "--include-absent").err


def test_what_an_upgrade_would_not_choose_is_fetched_by_its_name(ortpkg: RunCommand) -> None:
    ortpkg("install", REFERENCE, "--name", "mine")

    told = ortpkg("select", "mine", "--variant", "cpu-int8").err

    assert "--name mine --variant cpu-int8 fetches them" in told
    assert ortpkg("uninstall", "mine", "mine").code == 0


def test_upgrade_fetches_what_this_machine_would_choose_now(
    ortpkg: RunCommand, tmp_path: Path
) -> None:
    ortpkg("install", REFERENCE, "--name", "changed")
    record = tmp_path / "store/names/changed/current.json"
    installed = json.loads(record.read_bytes())
    assert installed["variants"] == ["classifier/cpu-fp32"]
    record.chmod(0o644)
    record.write_text(json.dumps({**installed, "variants": ["classifier/cpu-int8"]}))

    assert "is now 1.0.0 (latest) (classifier/cpu-fp32)" in ortpkg("upgrade", "changed").out


def test_hardware_that_is_new_is_told_of_and_its_variant_fetched(
    ortpkg: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    def become(profile: str) -> None:
        offer = offer_of_profile(read_profile(profile))
        monkeypatch.setattr(package_selection, "this_machine", lambda **_: offer)

    def told_by_doctor() -> list[str]:
        return [
            f"{each['message']}: {each['remedy']}"
            for each in ortpkg("doctor", "--json").json["complaints"]
            if each["check"] == "better-variant"
        ]

    become("plain-server")
    ortpkg("install", REFERENCE, "--name", "mine")
    assert told_by_doctor() == []
    become("rtx-workstation")

    (told,) = told_by_doctor()
    assert "'classifier/cuda' of mine would be better on this machine now" in told
    assert told.endswith(": ortpkg upgrade mine fetches it")
    selected = ortpkg("select", "mine").err
    assert "classifier: cuda would be chosen here" in selected
    assert "ortpkg upgrade mine fetches them" in selected
    assert "(classifier/cuda)" in ortpkg("upgrade", "mine").out
    assert told_by_doctor() == []
    assert "absent" not in ortpkg("select", "mine").err
    assert (ort.ModelPackage("mine").info.root / "models/classifier/cuda/model.onnx").is_file()


def test_commands_that_change_a_package_refuse_an_installed_one_and_say_how_to_copy_it(
    ortpkg: RunCommand, tmp_path: Path, model: Callable[..., Path]
) -> None:
    ortpkg("install", REFERENCE, "--name", "digits", "--all-variants")
    (tmp_path / "key.pem").write_bytes(new_private_key().pem(None))
    root = ort.ModelPackage("digits").info.root
    changes: tuple[tuple[str | Path, ...], ...] = (
        ("edit", "PKG", "--model-version", "3"),
        ("add-variant", "PKG", model(), "--ep", "cpu"),
        ("remove-variant", "PKG", "cuda"),
        ("samples", "add", "PKG", "--name", "mine", "--input", "image=x.npy"),
        ("dedup", "PKG"),
        ("compile", "PKG", "--ep", "openvino"),
        ("slim", "PKG", "--variant", "cpu-fp32", "--in-place"),
        ("convert", "PKG", "--to", "component", "--in-place"),
        ("merge", "newer.ortpackage", "--into", "PKG"),
        ("verify", "PKG", "--record"),
        ("verify", "PKG", "--repair-from", "newer.ortpackage"),
        ("sign", "PKG", "--key", "key.pem"),
    )
    for words in changes:
        for package in ("digits", root):
            done = ortpkg(*(package if word == "PKG" else word for word in words))
            assert (done.code, done.out) == (2, ""), (words, done.err)
            assert "ortpkg pull digits -o FOLDER" in done.err, (words, done.err)
