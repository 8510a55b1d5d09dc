"""``ortpkg devices``: this machine and profiles, as tables, JSON and files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ortpkg.machine import BUILT_IN_PROFILES, read_profile
from tests.cli.conftest import RunCommand


@pytest.fixture(autouse=True)
def not_asking_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ORTPKG_PROBE_TIMEOUT", raising=False)


def test_an_exported_machine_is_read_back_and_shown(ortpkg: RunCommand, tmp_path: Path) -> None:
    file = tmp_path / "laptop.json"

    exported = ortpkg("devices", "--export", file)
    shown = ortpkg("devices", "--profile", file, "--json").json
    here = ortpkg("devices", "--json").json

    assert (exported.code, exported.out) == (0, "")
    assert "look through it before you give it away" in exported.err
    assert (shown["profile"], shown["constructed"]) == ("laptop", False)
    assert [each["name"] for each in shown["hardware"]] == [
        each["name"] for each in here["hardware"]
    ]
    assert shown["ep_devices"] == here["ep_devices"]
    assert shown["software"]["numpy"]
    assert list(tmp_path.iterdir()) == [file]


def test_an_export_names_neither_the_machine_nor_its_user(
    ortpkg: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.node", lambda: "constructed-host")
    monkeypatch.setattr("socket.gethostname", lambda: "constructed-host")
    text = ortpkg("devices", "--export", "-").out

    document = json.loads(text)
    assert (document["kind"], document["name"]) == ("machine_profile", "this-machine")
    told = {key for device in document["machine"]["hardware"] for key in device["metadata"]}
    assert told <= {
        *(
            "board",
            "cores",
            "driver",
            "driver_version",
            "firmware_version",
            "instruction_sets",
            "l4t_release",
        ),
        *(
            "logical_cores",
            "metal",
            "pci_address",
            "physical_cores",
            "platform_device",
            "possible_cores",
            "product",
        ),
    }
    assert "constructed-host" not in text


def test_an_export_to_where_nothing_can_be_written_is_a_usage_error(
    ortpkg: RunCommand, tmp_path: Path
) -> None:
    done = ortpkg("devices", "--profile", "plain-server", "--export", tmp_path / "none" / "m.json")

    assert done.code == 2
    assert "there is no directory" in done.err


@pytest.mark.parametrize("name", BUILT_IN_PROFILES)
def test_a_built_in_profile_is_shown_with_the_word_constructed(
    ortpkg: RunCommand, name: str
) -> None:
    done = ortpkg("devices", "--profile", name)

    assert done.code == 0
    assert done.out.startswith(f"{name} (constructed)\nConstructed from public documentation")
    assert read_profile(name).machine.hardware[0].name in done.out


def test_the_built_in_profiles_are_listed(ortpkg: RunCommand) -> None:
    assert [
        each["name"] for each in ortpkg("devices", "--list-profiles", "--json").json["profiles"]
    ] == [*BUILT_IN_PROFILES]
    assert ortpkg("devices", "--list-profiles").out.count("Constructed") == len(BUILT_IN_PROFILES)


def test_facts_show_each_fact_with_its_source_and_what_is_unknown(ortpkg: RunCommand) -> None:
    rows = [
        line.split()
        for line in ortpkg(
            "devices", "--profile", "snapdragon-x-laptop", "--facts"
        ).out.splitlines()
    ]

    assert ["device_id", "0x0d0a", "public", "documentation"] in rows
    assert ["memory_nbytes", "unknown"] in rows


def test_an_emulated_device_of_no_execution_provider_is_a_usage_error_that_lists_them(
    ortpkg: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORTPKG_EMULATED_DEVICES", "qnnn")

    done = ortpkg("devices")

    assert (done.code, done.out) == (2, "")
    assert "ORTPKG_EMULATED_DEVICES: there is no execution provider 'qnnn'" in done.err
    assert "openvino" in done.err.partition("known are: ")[2]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--profile", "plain-sever"], "(did you mean 'plain-server'?)"),
        (["--profile", "plain-server", "--ep", "cpu"], "--ep asks this machine"),
        (
            ["--ep", "OpenVNO"],
            "there is no execution provider 'OpenVNO'; did you mean 'OpenVINOExecutionProvider'?",
        ),
    ],
)
def test_what_is_not_there_is_a_usage_error_with_a_suggestion(
    ortpkg: RunCommand, words: list[str], message: str
) -> None:
    done = ortpkg("devices", *words)

    assert done.code == 2
    assert message in done.err


def test_a_file_that_is_no_profile_says_where_and_what_would_be_right(
    ortpkg: RunCommand, tmp_path: Path
) -> None:
    file = tmp_path / "m.json"
    document = json.loads(ortpkg("devices", "--profile", "plain-server", "--export", "-").out)
    document["machine"]["hardware"][0]["type"] = "tpu"
    file.write_text(json.dumps(document), encoding="utf-8")

    done = ortpkg("devices", "--profile", file, "--json")

    assert done.code == 2
    assert done.json["error"]["type"] == "ProfileError"
    assert "/machine/hardware/0/type" in done.json["error"]["message"]
    assert 'must be "cpu", "gpu" or "npu"' in done.json["error"]["message"]
