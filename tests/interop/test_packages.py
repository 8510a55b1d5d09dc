"""The packages that matter, in each onnxruntime release, through its own C functions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ortpkg
from ortpkg import NewVariant
from tests.interop.conftest import PackageWriter
from tests.interop.packages import (
    AZURE,
    CPU,
    DIGEST,
    Model,
    common_directory_tree,
    component_forms_tree,
    inline,
    metadata_common_directory_tree,
    olive_tree,
    ort_variant,
    shared_asset_tree,
    universal_tree,
)
from tests.interop.protocol import Eps, FloatTensor, Outcome, Reference, Refusal, Stage, Walk
from tests.interop.release import Release
from tests.interop.wheels import REPOSITORY

pytestmark = pytest.mark.interop

WITH_AZURE = Eps(appended=("AZURE",))
DIGITS = REPOSITORY / "sample_packages" / "digits.ortpackage"
FEED = FloatTensor(shape=(2,), elements=(1.0, 2.0))


def offset_of(outcome: Outcome) -> float:
    """The offset of the model that ran, after checking all of its output."""
    assert outcome.crash == ""
    assert outcome.refusal is None
    (output,) = outcome.outputs.values()
    offset = output[0] - FEED.elements[0]
    assert output == tuple(element + offset for element in FEED.elements)
    return offset


def selected(outcome: Outcome) -> tuple[str | None, str | None]:
    """The variant, and its directory's name."""
    return outcome.variant, outcome.directory and Path(outcome.directory).name


def test_universal_package_runs_on_an_ep_that_is_not_cpu(
    release: Release, write_package: PackageWriter
) -> None:
    root = write_package(universal_tree())

    outcome = release.walk(Walk(root=str(root), component="c", eps=WITH_AZURE, feed=FEED))

    assert offset_of(outcome) == 2.0
    assert selected(outcome) == ((None, None) if release.minor < 28 else ("azure", "azure"))


def test_universal_package_on_the_cpu_alone_runs_from_1_28_on(
    release: Release, write_package: PackageWriter
) -> None:
    root = write_package(universal_tree())

    outcome = release.walk(Walk(root=str(root), component="c", feed=FEED))

    if release.minor < 28:
        assert outcome.refusal is not None
        assert "No execution providers were provided or selected" in outcome.refusal.message
    else:
        assert (offset_of(outcome), outcome.variant) == (1.0, "cpu")


def test_package_that_create_writes_runs(release: Release, tmp_path: Path) -> None:
    models = []
    for name, offset, ep in (("azure", 2.0, AZURE), ("cpu", 1.0, CPU)):
        path = tmp_path / f"{name}.onnx"
        path.write_bytes(Model(offset).serialized())
        models.append(NewVariant(model=path, ep=ep))
    root = tmp_path / "created.ortpackage"
    ortpkg.create(root, models, component="c")

    outcome = release.walk(Walk(root=str(root), component="c", eps=WITH_AZURE, feed=FEED))

    manifest = json.loads((root / "manifest.json").read_text(encoding="utf-8"))
    if release.minor < 28 or "components" in manifest:
        assert offset_of(outcome) == 2.0
    else:  # the metadata form alone
        assert outcome.refusal is not None
        assert (outcome.refusal.stage, outcome.refusal.code) == (Stage.OPEN, 1)
        assert "schema_version" in outcome.refusal.message


def test_component_forms_open_and_run_alike(
    component_release: Release, write_package: PackageWriter
) -> None:
    """Inline, a file of any name, and a directory with component.json.

    Each variant in its own directory.
    """
    root = write_package(component_forms_tree())

    outcomes = {
        component: component_release.walk(Walk(root=str(root), component=component, feed=FEED))
        for component in ("inline", "file", "directory")
    }

    assert {name: offset_of(outcome) for name, outcome in outcomes.items()} == {
        "inline": 1.0,
        "file": 2.0,
        "directory": 3.0,
    }
    assert outcomes["file"].components == {
        name: {"v": CPU} for name in ("inline", "file", "directory")
    }


def test_variants_share_weights_in_a_common_directory(
    component_release: Release, write_package: PackageWriter
) -> None:
    """The form that needs no option: one ``variant_directory``, two models beside one data file."""
    root = write_package(common_directory_tree())

    for eps, variant in ((WITH_AZURE, "azure"), (Eps(), "cpu")):
        outcome = component_release.walk(Walk(root=str(root), component="c", eps=eps, feed=FEED))
        assert (offset_of(outcome), selected(outcome)) == (5.0, (variant, "shared"))


def test_metadata_variants_share_weights_in_a_common_directory(
    release: Release, write_package: PackageWriter
) -> None:
    """The metadata generation's counterpart: one ``model_id``, one ``model_file`` each."""
    root = write_package(metadata_common_directory_tree())

    outcome = release.walk(Walk(root=str(root), component="c", eps=WITH_AZURE, feed=FEED))

    if release.minor < 28:
        assert offset_of(outcome) == 5.0
    else:
        assert outcome.refusal is not None
        assert "schema_version" in outcome.refusal.message


@pytest.mark.parametrize(
    "own_options", [None, {"session.intra_op_num_threads": "1"}], ids=["package's", "caller's"]
)
def test_variants_share_weights_in_a_shared_asset(
    component_release: Release, write_package: PackageWriter, own_options: dict[str, str] | None
) -> None:
    """The form with the folder option, which holds for a caller's session options too."""
    root = write_package(shared_asset_tree())

    outcome = component_release.walk(
        Walk(root=str(root), component="c", own_options=own_options, feed=FEED)
    )

    assert offset_of(outcome) == 7.0


def test_session_options_of_a_package_reach_the_session(
    component_release: Release, write_package: PackageWriter
) -> None:
    """Seen by an impossible option: with a caller's own options, the package's are not used."""
    options = {"session.intra_op_num_threads": "not_an_int"}
    root = write_package(
        {
            "manifest.json": inline({"v": ort_variant(session_options=options)}),
            "v/model.onnx": Model(1.0),
        }
    )

    with_the_packages = component_release.walk(Walk(root=str(root), component="c", feed=FEED))
    with_the_callers = component_release.walk(
        Walk(root=str(root), component="c", own_options={}, feed=FEED)
    )

    assert with_the_packages.refusal is not None
    assert with_the_packages.refusal.stage is Stage.SESSION
    assert "session.intra_op_num_threads" in with_the_packages.refusal.message
    assert offset_of(with_the_callers) == 1.0


def test_olive_package_opens_and_selects_and_has_no_session(
    component_release: Release, write_package: PackageWriter
) -> None:
    root = write_package(olive_tree())
    tokenizer = Reference(text=f"sha256:{DIGEST}/tokenizer.json")

    outcome = component_release.walk(
        Walk(root=str(root), component="model", references=(tokenizer,))
    )

    assert outcome.components == {"model": {"cpu": CPU, "gpu": "CUDAExecutionProvider"}}
    assert outcome.references == (
        str(root / "shared_assets" / f"sha256-{DIGEST}" / "tokenizer.json"),
    )
    assert selected(outcome) == ("cpu", "cpu")
    assert outcome.refusal is not None
    assert outcome.refusal.stage is Stage.SESSION
    assert "model_file" in outcome.refusal.message


def test_sample_package_is_opened_by_every_release(release: Release) -> None:
    """No variant is for Azure; each release says so after it has read the whole package."""
    outcome = release.walk(Walk(root=str(DIGITS), component="classifier", eps=WITH_AZURE))

    assert outcome.refusal is not None
    assert "No suitable model variant found" in outcome.refusal.message


def test_sample_package_runs_on_the_cpu(component_release: Release) -> None:
    scan = FloatTensor(shape=(1, 1, 8, 8), elements=(0.0,) * 64)

    outcome = component_release.walk(
        Walk(root=str(DIGITS), component="classifier", input_name="image", feed=scan)
    )

    assert (outcome.refusal, outcome.crash) == (None, "")
    assert selected(outcome) == ("cpu-fp32", "cpu-fp32")
    (logits,) = outcome.outputs.values()
    assert len(logits) == 10


def test_create_session_refuses_a_directory_from_1_28_on(
    release: Release, write_package: PackageWriter
) -> None:
    root = write_package(universal_tree())

    outcome = release.walk(Walk(root=str(root), is_model=True, eps=WITH_AZURE, feed=FEED))

    if release.minor < 28:
        assert offset_of(outcome) == 2.0
    else:
        assert outcome.refusal is not None
        assert (outcome.refusal.stage, outcome.refusal.code) == (Stage.SESSION, 2)
        assert "directory" in outcome.refusal.message
        assert "model package API" in outcome.refusal.message


def test_release_says_its_own_version(release: Release, write_package: PackageWriter) -> None:
    outcome = release.walk(Walk(root=str(write_package({})), component="c"))

    assert outcome.version == release.version
    assert isinstance(outcome.refusal, Refusal)


def test_crash_of_a_release_is_an_outcome(
    component_release: Release, write_package: PackageWriter
) -> None:
    """A manifest nested too deep ends these releases' own process, and nothing more."""
    depth = 1_000_000
    nested = "[" * depth + "]" * depth
    root = write_package(
        {
            "manifest.json": (
                f'{{"schema_version": "1.0", "components": {{}}, "additional_metadata": {nested}}}'
            )
        }
    )

    assert "the process ended" in component_release.walk(Walk(root=str(root))).crash
    (root / "manifest.json").write_text(
        '{"schema_version": "1.0", "components": {}}', encoding="utf-8"
    )
    assert component_release.walk(Walk(root=str(root))).refusal is None
