"""Selections and sessions by releases' rules, against the releases themselves.

As in test_compat.py, what a release does is asked of it; the expectations of the tables play no
part.
"""

from __future__ import annotations

import itertools
import json
import os
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ortpkg import ModelPackage, SessionOptions
from ortpkg.foundations.errors import InvalidSessionOptionError, OrtpkgError, PackageError
from ortpkg.foundations.onnxruntime_releases import ONNXRUNTIME_1_27
from ortpkg.package.reader import open_package
from ortpkg.package.trust.session_option_values import read_as_onnxruntime
from ortpkg.package.trust.typed_options_1_32 import MOE_PREFIX, TYPED_SINCE_1_32
from tests.interop.case import CPU_DEVICE, METADATA_LINES, STABLE_LINES, WITH_AZURE, Case
from tests.interop.compat_selection import eps_of, select_here
from tests.interop.component_run_cases import SELECT_CASES, SESSION_CASES
from tests.interop.conftest import PackageWriter, ReleaseStarter
from tests.interop.packages import (
    AZURE,
    CPU,
    Link,
    Model,
    Tree,
    inline,
    metadata_manifest,
    metadata_variant,
    ort_variant,
)
from tests.interop.protocol import Eps, FloatTensor, Outcome, Stage, Walk
from tests.interop.release import Release
from tests.interop.wheels import (
    ALL_RELEASES_VARIABLE,
    OTHER_RELEASES,
    minor_of,
    releases_under_test,
)

pytestmark = pytest.mark.interop

FEED = FloatTensor(shape=(1,), elements=(1.0,))
CASES = [
    case
    for case in (*SELECT_CASES, *SESSION_CASES)
    if set(STABLE_LINES) & set(case.lines) and case.component
]
ALL_EPS = (
    Eps(),
    WITH_AZURE,
    CPU_DEVICE,
    Eps(appended=("AZURE",), devices_of=(CPU,)),
    Eps(policy=1),
)


# --- whole walks ----------------------------------------------------------------------------------


def our_walk(
    root: Path, case: Case, compat: str
) -> tuple[Stage | None, str | None, tuple[float, ...]]:
    """The case by a release's rules on this machine: (stage that ended it, variant, output)."""
    variant = None
    stage = Stage.OPEN
    try:
        package = ModelPackage(root, compat=compat)
        stage = Stage.SELECT
        chosen = package.best_variant(case.component, policy=compat, ep=eps_of(case.eps))
        variant = chosen.name
        if not case.session:
            return None, variant, ()
        stage = Stage.SESSION
        session = chosen.create_session(_own_options(case.own_options))
    except OrtpkgError:
        return stage, variant, ()
    (output,) = session.run(None, {"x": np.array(FEED.elements, np.float32)})
    return None, variant, tuple(np.asarray(output).tolist())


def their_walk(outcome: Outcome) -> tuple[Stage | None, str | None, tuple[float, ...]]:
    """The same of the release."""
    assert outcome.crash == ""
    stage = None if outcome.refusal is None else outcome.refusal.stage
    return stage, outcome.variant, outcome.outputs.get("y", ())


def _own_options(entries: Mapping[str, str] | None) -> SessionOptions | None:
    if entries is None:
        return None
    options = SessionOptions()
    for key, value in entries.items():
        options.add_session_config_entry(key, value)
    return options


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_compat_mode_goes_as_far_as_the_release(
    stable_release: Release, write_package: PackageWriter, case: Case
) -> None:
    if os.name == "nt" and case.needs_posix:
        pytest.skip("links, or names that Windows has not")
    root = write_package(case.tree)
    walk = Walk(
        root=str(root),
        component=case.component,
        eps=case.eps,
        session=case.session,
        own_options=case.own_options,
        feed=FEED,
    )

    assert our_walk(root, case, stable_release.compat) == their_walk(stable_release.walk(walk))


_SERIALIZED = Model(1.0).serialized()
_MODEL_FILES: Tree = {
    "manifest.json": "{}",
    "v/m.onnx": _SERIALIZED,
    "v/no_extension": _SERIALIZED,
    "v/cut.onnx": _SERIALIZED[:-5],
    "v/more.onnx": _SERIALIZED + b"\0\0",
    "v/text.onnx": b"xxxxxx",
    "v/empty.onnx": b"",
    "v/folder.onnx/m.onnx": _SERIALIZED,
    "v/link.onnx": Link("m.onnx"),
    "v/dangling.onnx": Link("nothing"),
}


@pytest.mark.skipif(os.name == "nt", reason="links, and names that Windows has not")
@pytest.mark.parametrize(
    "model_file",
    [
        *(path.removeprefix("v/").partition("/")[0] for path in _MODEL_FILES if path.startswith("v/")),
        *("m.onnx/", "folder.onnx/", "folder.onnx/m.onnx", "./m.onnx", "./", ".", "m.onnx/.", "m.onnx/./"),
        *("m.onnx\0x", "m.onnx\0/", "nothing", ""),
    ],
)  # fmt: skip
def test_compat_mode_takes_and_refuses_model_files_as_the_release_does(
    stable_release: Release, write_package: PackageWriter, model_file: str
) -> None:
    tree = {**_MODEL_FILES, "manifest.json": inline({"v": ort_variant(model_file=model_file)})}
    case = Case(id="", says="", tree=tree, component="c", session=True)
    root = write_package(tree)

    assert our_walk(root, case, stable_release.compat) == their_walk(
        stable_release.walk(Walk(root=str(root), component="c", feed=FEED))
    )


# --- values of options ----------------------------------------------------------------------------

_NUMBERS = (
    "0", "1", "-1", "+1", " 1", "1 ", "", "01", "0x1", "1.0", "1e1", "2147483648", "-2147483648", "-2147483649",
    "99999999999999999999", "abc", "1a", "٣", "1\u00a0", "-0", "--1", "1,000", "1_0", "\t1", "\v1",
    "\x1c1", "\u20031",
    "\0", "1\0x", "x\0", "-2", "4", "5", "0" * 9000 + "1",
)  # fmt: skip
_WORDS = (
    "0", "1", "true", "FALSE", "tRue", "yes", "on", "", " 1", "01", "2", "-1", "1\0x", "sequential", "Parallel",
    "ORT_SEQUENTIAL", "ort_parallel", " parallel", "both", "disable_all", "ENABLE_ALL", "Enable_Layout", "enable_basic",
    "enable_extended", "ORT_ENABLE_ALL", "99", "all", "v" * 8193,
)  # fmt: skip
_TYPED_KEYS: Mapping[str, tuple[str, ...]] = {
    "session.intra_op_num_threads": _NUMBERS,
    "session.inter_op_num_threads": _NUMBERS,
    "session.log_severity_level": (*_NUMBERS, "2147483647"),
    "session.log_verbosity_level": (*_NUMBERS, "2147483647"),
    "session.enable_cpu_mem_arena": _WORDS,
    "session.enable_mem_pattern": _WORDS,
    "session.enable_mem_reuse": _WORDS,
    "session.use_deterministic_compute": _WORDS,
    "session.use_per_session_threads": _WORDS,
    "session.execution_mode": _WORDS,
    "session.graph_optimization_level": _WORDS,
    "session.log_id": _WORDS,
    "session.intra_op_thread_count": _WORDS,
    "SESSION.execution_mode": _WORDS,
    "execution_mode": _WORDS,
}
_KEYS = ("", "k" * 1024, "k" * 1025, "é" * 512, "é" * 513, "a\tb", " ")
_VALUES = ("v" * 8192, "v" * 8193, "é" * 4096, "é" * 4097, "v" * 8192 + "\0" + "v", "a\0b", "")


_AMOUNTS = (
    "", "0", "1", "-1", "2", "+1", " 1", "1 ", "\t1", "1\t", "\n1\n", "\x1c1", "01", "-0", "-00", "--0", "0x1", "0x1p-1", "0x.8",
    "0x", "1.0", "1.", ".5", "5.", ".", "1e1", "1e", "1E5", "0.5", "-0.5", "1.0000001", "1.00000001", "1.0f", "1e-45", "1e-46",
    "7e-46", "7.1e-46", "0e999", "1e-400", "1e400", "1e39", "3.4028235e38", "3.4028236e38", "nan", "inf", "INFINITY", "1 1", "1_0",
    "63", "64", "65", "4095", "4096", "4097", "12288", "1048576", "1048577", "1052672", "1056768", "67108864", "67112960",
    "1073741824", "1073750016", "2147483647", "2147483648", "4294967295", "4294967296", "4294967297", "9223372036854775808",
    "18446744073709551615", "18446744073709551616", "9" * 30, "0" * 40 + "1", "abc", "0\0x",
)  # fmt: skip
_CHOICES = (
    "true", "True", "fALSE", "on", "OFF", "yes", "auto", "aUTO", "Auto", " auto", "disabled", "DISABLED", "required", "enabled",
    "static", "Adaptive", "basic", "layered", "latency", "memory", "safe", "SAFE", "auto\0x", "00", "3",
)  # fmt: skip
_SLOTS = "max_resident_slots"
_NODES = (
    *(f"n:{_SLOTS}={value}" for value in ("1", "0", "-1", "+1", "01", " 1 ", "2147483648", "", "1=2")),
    *(f"n:device_expert_bytes={value}" for value in ("0", "18446744073709551615", "18446744073709551616", "auto")),
    *("n", "n:", "n: ", "n:,", ":", ",", ";", " ; ", "n:=1", f"n:{_SLOTS}", f":{_SLOTS}=1", f" : {_SLOTS}=1", f"a:b:{_SLOTS}=1"),
    *(f"n:{_SLOTS}=1{more}" for more in (",", ",,", ", ", ", ;", ";", ";;m:device_expert_bytes=2", ",device_expert_bytes=2")),
    *(f"n:{_SLOTS}=1,,device_expert_bytes=1", f"n:,{_SLOTS}=1", f" n : {_SLOTS} = 1 ", f"n:{_SLOTS.upper()}=1"),
    *(f"n=1:{_SLOTS}=1", f"n,m:{_SLOTS}=1", f"n:{_SLOTS}=1,{_SLOTS}=2", f"n:{_SLOTS}=1;n:{_SLOTS}=2"),
)  # fmt: skip
_UNKNOWN_BELOW_MOE = (MOE_PREFIX, f"{MOE_PREFIX}x", MOE_PREFIX.rstrip("."), "session.moe.x")


def _options() -> Iterator[dict[str, str]]:
    for key in (*TYPED_SINCE_1_32, *_UNKNOWN_BELOW_MOE):
        yield from ({key: value} for value in (*_AMOUNTS, *_CHOICES, *_NODES))
    for key, values in _TYPED_KEYS.items():
        yield from ({key: value} for value in values)
    yield from ({key: "v"} for key in _KEYS)
    yield from ({"k": value} for value in _VALUES)


def test_values_of_session_options_are_taken_and_refused_as_the_release_does(
    stable_release: Release, write_package: PackageWriter
) -> None:
    root = write_package({"v/model.onnx": Model(1.0)})
    options_of_all = list(_options())
    if not os.environ.get(
        ALL_RELEASES_VARIABLE
    ):  # each takes a session; make interop tries all of them
        options_of_all = random.Random(7).sample(options_of_all, len(options_of_all) // 8)
    differing = []
    for options in options_of_all:
        manifest = inline({"v": ort_variant(session_options=options)})
        (root / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
        theirs = stable_release.walk(Walk(root=str(root), component="c", feed=FEED))
        try:
            read_as_onnxruntime(
                open_package(root, compat=stable_release.compat)
                .components[0]
                .variants[0]
                .session_options,
                release=stable_release.compat,
            )
            refusal = None
        except (InvalidSessionOptionError, PackageError) as error:
            refusal = error
        if (refusal is None) != (theirs.refusal is None):
            differing.append(f"{str(options)[:80]}: we say {refusal}, the release {theirs.refusal}")

    assert "\n".join(differing) == ""


# --- selections -----------------------------------------------------------------------------------

_EPS = (None, "", CPU, AZURE, "cpu", "azureexecutionprovider", f"{CPU}\0x")
_DEVICES = (None, "", "cpu", "CPU", "npu", "weird", "\0cpu")
_COMPATIBILITY_STRINGS = (None, "", "x")


def _component_variants() -> list[dict[str, str]]:
    keys = ("ep", "device", "compatibility_string")
    return [
        {key: value for key, value in zip(keys, values, strict=True) if value is not None}
        for values in itertools.product(_EPS, _DEVICES, _COMPATIBILITY_STRINGS)
    ]


def _packages_of_variants(choices: list[Any]) -> Iterator[dict[str, Any]]:
    """Each variant alone and some together, under names in another order than theirs."""
    yield from ({"v": each} for each in choices)
    chance = random.Random(31)
    for _ in range(150):
        names = chance.sample("zyxwvutsabcdefgh", chance.randint(2, 5))
        yield {name: chance.choice(choices) for name in names}


def test_the_policy_selects_what_the_release_selects_of_every_combination(
    stable_release: Release, write_package: PackageWriter
) -> None:
    root = write_package({"manifest.json": "{}"})
    differing = []
    for variants in _packages_of_variants(_component_variants()):
        (root / "manifest.json").write_text(json.dumps(inline(variants)), encoding="utf-8")
        component = open_package(root, compat=stable_release.compat).components[0]
        for eps in ALL_EPS:
            theirs = stable_release.walk(
                Walk(root=str(root), component="c", eps=eps, session=False)
            )
            best = select_here(component, stable_release.compat, eps).best
            ours = None if best is None else best.variant.name
            if ours != theirs.variant:
                differing.append(
                    f"{variants}, {eps}: we select {ours}, the release {theirs.variant}"
                )

    assert "\n".join(differing) == ""


def _metadata_variants() -> list[dict[str, Any]]:
    """Without empty texts, which the strict reader takes for nothing stated, too."""
    choices = itertools.product(
        (None, CPU, AZURE, "AZURE"), (None, "cpu", "NPU", "weird"), (None, "x"), (None, "y")
    )
    return [
        metadata_variant(
            ep, **({"device": device} if device else {}), **({"ep_compatibility_info": info} if info else {}),
            **({"architecture": architecture} if architecture else {}),
        )
        for ep, device, info, architecture in choices
    ]  # fmt: skip


@pytest.mark.requirement("K16")
@pytest.mark.parametrize(
    "version",
    [
        pytest.param(
            each,
            marks=pytest.mark.skipif(
                each not in releases_under_test(), reason="make interop fetches it"
            ),
        )
        for each in OTHER_RELEASES
        if minor_of(each) in METADATA_LINES
    ],
)
def test_the_policy_selects_what_1_26_and_1_27_select_of_every_combination(
    start_release: ReleaseStarter, write_package: PackageWriter, version: str
) -> None:
    """Which variant ran shows in its output.

    Where we say that nobody knows, it is one of those that we name.
    """
    names = "zyxwvutsabcdefgh"
    offsets = {name: float(offset) for offset, name in enumerate(names, start=1)}
    models = {f"models/c/{name}/model.onnx": Model(offset) for name, offset in offsets.items()}
    root = write_package(
        {"manifest.json": metadata_manifest(), "models/c/metadata.json": "{}", **models}
    )
    release = start_release(version)
    differing = []
    packages = [
        *_packages_of_variants(_metadata_variants()),
        dict.fromkeys(names, metadata_variant(AZURE)),
    ]
    for variants in packages:
        metadata = {"component_model_name": "c", "model_variants": variants}
        (root / "models/c/metadata.json").write_text(json.dumps(metadata), encoding="utf-8")
        component = open_package(root).components[0]
        for eps in ALL_EPS:
            outcome = release.walk(Walk(root=str(root), component="c", eps=eps, feed=FEED))
            output = outcome.outputs.get("y")
            theirs = None if output is None else names[round(output[0] - FEED.elements[0]) - 1]
            selection = select_here(component, ONNXRUNTIME_1_27, eps)
            possible: tuple[str | None, ...] = (
                None if selection.best is None else selection.best.variant.name,
            )
            if any(warning.endswith("no order was seen") for warning in selection.warnings):
                possible = selection.unpredictable
            if theirs not in possible:
                differing.append(
                    f"{variants}, {eps}: we say {possible}, the release {theirs} {outcome.refusal}"
                )

    assert "\n".join(differing) == ""
