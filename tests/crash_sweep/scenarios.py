"""Every command that changes a disk, on small packages, to be stopped at each file operation."""

from __future__ import annotations

import json
import shutil
from contextlib import AbstractContextManager
from pathlib import Path
from unittest import mock

import numpy as np

from ortpkg.api.model_package import ModelPackage
from ortpkg.api.packing import pack, unpack
from ortpkg.api.samples.sample_authoring import SampleArrays, add_samples, record_samples
from ortpkg.api.verify import record_digests, verify
from ortpkg.authoring import compile_files as compile_files_module
from ortpkg.authoring import compile_variants as compile_variants_module
from ortpkg.authoring.compile_wishes import CompileWishes
from ortpkg.authoring.compiling import compile_package
from ortpkg.authoring.convert import convert
from ortpkg.authoring.create import add_variant, create, init_package, remove_variant
from ortpkg.authoring.edit import PackageEdits, edit
from ortpkg.authoring.merge import merge
from ortpkg.authoring.new_variant import NewVariant
from ortpkg.authoring.sharing.dedup import dedup
from ortpkg.authoring.slim import slim
from ortpkg.distribution.package_signing import sign_package
from ortpkg.foundations.errors import OrtpkgError, StaleVariantError
from ortpkg.package.sidecar import is_signature_file
from ortpkg.package.trust.signing.signing_keys import new_private_key
from ortpkg.runtime.session.compile_models import CompileJob, CompileRequest
from ortpkg.runtime.session.compile_models import _compile as compile_here
from ortpkg.runtime.session.inference_session import InferenceSession
from tests.authoring.weight_models import make_model, weight
from tests.crash_sweep.command_scenarios import COMMAND_SCENARIOS
from tests.crash_sweep.scenario import Scenario, content_of
from tests.crash_sweep.store_scenarios import STORE_SCENARIOS


def _quiet(_: str) -> None:
    """Takes warnings."""


def _models(folder: Path) -> dict[str, Path]:
    weights = {"w0": weight(0), "w1": weight(1)}
    return {
        "a": make_model(folder / "models/a", weights),
        "b": make_model(folder / "models/b", weights, location="data/b.bin", packing=["w1", "w0"]),
        "c": make_model(folder / "models/c", {"w1": weight(1), "own": weight(2)}),
    }


def _package(folder: Path) -> None:
    """``p``: component ``model`` with two variants of equal weights, ``second`` with one."""
    models = _models(folder)
    variants = [
        NewVariant(model=models[name], name=name, ep=ep)
        for name, ep in (("a", "cpu"), ("b", "cuda"))
    ]
    create(folder / "p", variants, notify=_quiet)
    add_variant(folder / "p", models["c"], component="second", variant="c", ep="cpu", notify=_quiet)


def _one_component(folder: Path, form: str = "universal") -> None:
    models = _models(folder)
    variants = [
        NewVariant(model=models[name], name=name, ep=ep)
        for name, ep in (("a", "cpu"), ("b", "cuda"))
    ]
    create(folder / "p", variants, form=form, notify=_quiet)


def _two_packages(folder: Path) -> None:
    models = _models(folder)
    for root, name, ep in (("p", "a", "cpu"), ("other", "b", "cuda")):
        create(
            folder / root,
            [NewVariant(model=models[name], name=name, ep=ep)],
            name="m",
            notify=_quiet,
        )
    (folder / "other/samples").mkdir()
    np.savez(folder / "other/samples/in.npz", x=np.zeros((1, 16), dtype=np.float32))
    sample = {"name": "s", "component": "model", "inputs": "in.npz"}
    (folder / "other/samples/samples.json").write_text(
        json.dumps({"schema_version": "1.0", "samples": [sample]})
    )
    record_digests(folder / "other")


def _empty_folder(folder: Path) -> None:
    _models(folder)
    (folder / "p").mkdir()


def _package_and_another(folder: Path) -> None:
    """``p`` as :func:`_package`, and ``q`` with another variant; both packed, too."""
    _package(folder)
    create(
        folder / "q",
        [NewVariant(model=folder / "models/c/model.onnx", name="old", ep="cpu")],
        notify=_quiet,
    )
    pack(folder / "p", folder / "p.ortpkg")
    pack(folder / "q", folder / "q.ortpkg")


def _packed(folder: Path) -> None:
    _package(folder)
    pack(folder / "p", folder / "p.ortpkg")
    shutil.rmtree(folder / "p")


def _damaged(folder: Path) -> None:
    _package(folder)
    shutil.copytree(folder / "p", folder / "good")
    (folder / "p/models/model/a/weights.bin").write_bytes(b"damaged")
    (folder / "p/models/model/b/data/b.bin").unlink()


def _edited(folder: Path) -> None:
    _package(folder)
    path = folder / "p/manifest.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"description": "by hand"}))


def _create(folder: Path) -> object:
    models = [
        NewVariant(model=folder / f"models/{name}/model.onnx", name=name, ep="cpu")
        for name in ("a", "b")
    ]
    return create(folder / "p", models, notify=_quiet)


def _add(folder: Path, component: str, *, share: bool = False) -> object:
    model = folder / "models/c/model.onnx"
    return add_variant(
        folder / "p",
        model,
        component=component,
        variant="n",
        ep="qnn",
        share_weights=share,
        notify=_quiet,
    )


def _edit(folder: Path) -> object:
    return edit(folder / "p", PackageEdits(description="new", license="MIT"), notify=_quiet)


def _order(folder: Path) -> object:
    edits = PackageEdits(
        component="model", order=["b"], variant="b", session_options={"session.log_id": "x"}
    )
    return edit(folder / "p", edits, notify=_quiet)


def _replace_model(folder: Path) -> object:
    edits = PackageEdits(component="model", variant="a", model=folder / "models/c/model.onnx")
    return edit(folder / "p", edits, notify=_quiet)


def _with_samples(folder: Path) -> None:
    _package(folder)
    _add_samples(folder)


def _add_samples(folder: Path) -> object:
    inputs = {"x": np.ones((1, 16), dtype=np.float32)}
    return add_samples(folder / "p", SampleArrays(name="s", component="model", inputs=inputs))


def _record_samples(folder: Path) -> object:
    samples = SampleArrays(name="s", component="model", inputs={})
    return record_samples(folder / "p", samples, wishes={"backend": "embedded", "variant": "a"})


def _compiled(folder: Path) -> None:
    """``p``: a group of context models, and a file that is none of theirs."""
    _models(folder)
    (folder / "p").mkdir()
    (folder / "p/notes.txt").write_text("mine")
    _compile(folder, ("a", "b"))


def _compile(folder: Path, sources: tuple[str, str], *, overwrite: bool = False) -> object:
    """In this process: what a child that is stopped leaves is its parent's to remove."""
    jobs = [
        CompileJob(
            model=str(folder / f"models/{source}/model.onnx"),
            output=str(folder / f"p/{name}_ctx.onnx"),
            prefix=name,
        )
        for name, source in zip(("first", "second"), sources, strict=True)
    ]
    request = CompileRequest(jobs=tuple(jobs), ep="llvm", is_shared=True)
    with mock.patch.object(
        compile_files_module, "compile_models", lambda request, **_: compile_here(request)
    ):
        return compile_files_module.compile_files(
            request, timeout_s=60, notify=_quiet, overwrite=overwrite
        )


def _with_stale_variant(folder: Path) -> None:
    """``p``: a compiled variant whose source has another model by now."""
    _package(folder)
    with _compiled_here():
        compile_package(
            folder / "p",
            CompileWishes(ep="llvm", component="model", variants=("a",)),
            notify=_quiet,
        )
    edits = PackageEdits(component="model", variant="a", model=folder / "models/c/model.onnx")
    edit(folder / "p", edits, notify=_quiet)


def _renew(folder: Path) -> object:
    with _compiled_here():
        return compile_package(folder / "p", CompileWishes(ep="", renews=True), notify=_quiet)


def _compiled_here() -> AbstractContextManager[object]:
    """In this process: what a child that is stopped leaves is its parent's to remove."""
    return mock.patch.object(
        compile_variants_module, "compile_models", lambda request, **_: compile_here(request)
    )


def _variant_that_does_not_run(folder: Path) -> str:
    variant = ModelPackage(folder).variant("a-llvm", "model")
    try:
        variant.create_session().run(None, {"x": np.ones((1, 16), dtype=np.float32)})
    except StaleVariantError:
        return ""
    except OrtpkgError as error:
        return f"a-llvm does not run: {error}"
    return ""


def _context_that_does_not_run(folder: Path) -> str:
    for path in sorted(folder.glob("*_ctx.onnx")):
        try:
            InferenceSession(path, providers=["llvm"]).run(
                None, {"x": np.ones((1, 16), dtype=np.float32)}
            )
        except OrtpkgError as error:
            return f"{path.name} does not run: {error}"
    return ""


_KEY = new_private_key()

SCENARIOS = (
    Scenario(name="init", prepare=_models, run=lambda at: init_package(at / "p"), target="p"),
    Scenario(name="create", prepare=_models, run=_create, target="p"),
    Scenario(name="create in an empty folder", prepare=_empty_folder, run=_create, target="p"),
    Scenario(name="add-variant", prepare=_package, run=lambda at: _add(at, "model"), target="p"),
    Scenario(
        name="add-variant, new component",
        prepare=_package,
        run=lambda at: _add(at, "third"),
        target="p",
    ),
    Scenario(
        name="add-variant --share-weights",
        prepare=_package,
        run=lambda at: _add(at, "model", share=True),
        target="p",
    ),
    Scenario(
        name="remove-variant",
        prepare=_package,
        run=lambda at: remove_variant(at / "p", "a", component="model"),
        target="p",
    ),
    Scenario(
        name="remove-variant, the last one",
        prepare=_package,
        run=lambda at: remove_variant(at / "p", "c", component="second"),
        target="p",
    ),
    Scenario(name="edit", prepare=_package, run=_edit, target="p"),
    Scenario(name="edit --order", prepare=_package, run=_order, target="p"),
    Scenario(name="edit --model", prepare=_package, run=_replace_model, target="p"),
    Scenario(name="samples add", prepare=_package, run=_add_samples, target="p"),
    Scenario(name="samples record", prepare=_with_samples, run=_record_samples, target="p"),
    Scenario(name="dedup", prepare=_one_component, run=lambda at: dedup(at / "p"), target="p"),
    Scenario(
        name="dedup --layout shared-weights",
        prepare=_one_component,
        run=lambda at: dedup(at / "p", layout="shared-weights"),
        target="p",
    ),
    Scenario(
        name="dedup --layout shared-assets",
        prepare=lambda at: _one_component(at, form="component"),
        run=lambda at: dedup(at / "p", layout="shared-assets"),
        target="p",
    ),
    Scenario(
        name="convert",
        prepare=_one_component,
        run=lambda at: convert(at / "p", "metadata", notify=_quiet),
        target="p",
    ),
    Scenario(
        name="convert --output",
        prepare=_one_component,
        run=lambda at: convert(at / "p", "component", output=at / "q", notify=_quiet),
        target="q",
    ),
    Scenario(
        name="merge",
        prepare=_two_packages,
        run=lambda at: merge(at / "p", at / "other", notify=_quiet),
        target="p",
    ),
    Scenario(
        name="merge --output",
        prepare=_two_packages,
        run=lambda at: merge(at / "p", at / "other", output=at / "q", notify=_quiet),
        target="q",
    ),
    Scenario(
        name="slim",
        prepare=_package,
        run=lambda at: slim(at / "p", devices=["cpu"], eps=["cpu"], notify=_quiet),
        target="p",
    ),
    Scenario(
        name="slim --output",
        prepare=_package,
        run=lambda at: slim(at / "p", devices=["cpu"], eps=["cpu"], output=at / "q", notify=_quiet),
        target="q",
    ),
    Scenario(
        name="slim --output --overwrite",
        prepare=_package_and_another,
        run=lambda at: slim(
            at / "p", devices=["cpu"], eps=["cpu"], output=at / "q", overwrite=True, notify=_quiet
        ),
        target="q",
    ),
    Scenario(
        name="pack --overwrite",
        prepare=_package_and_another,
        run=lambda at: pack(at / "p", at / "q.ortpkg", overwrite=True),
        target="q.ortpkg",
    ),
    Scenario(
        name="unpack --overwrite",
        prepare=_package_and_another,
        run=lambda at: unpack(at / "p.ortpkg", at / "q", overwrite=True),
        target="q",
    ),
    Scenario(
        name="pack",
        prepare=_package,
        run=lambda at: pack(at / "p", at / "p.ortpkg"),
        target="p.ortpkg",
    ),
    Scenario(
        name="unpack", prepare=_packed, run=lambda at: unpack(at / "p.ortpkg", at / "p"), target="p"
    ),
    Scenario(
        name="verify --repair-from",
        prepare=_damaged,
        run=lambda at: verify(at / "p", repair_from=at / "good"),
        target="p",
        is_stepwise=True,
    ),
    Scenario(
        name="verify --record", prepare=_edited, run=lambda at: record_digests(at / "p"), target="p"
    ),
    Scenario(
        name="sign",
        prepare=_package,
        run=lambda at: sign_package(at / "p", _KEY),
        target="p",
        # No two signatures are alike, though by one key.
        content=lambda target: {
            name: b"" if is_signature_file(name) else content
            for name, content in content_of(target).items()
        },
    ),
    Scenario(
        name="compile-models",
        prepare=_models,
        run=lambda at: _compile(at, ("a", "b")),
        target="p",
        is_stepwise=True,
        flaw=_context_that_does_not_run,
    ),
    Scenario(
        name="compile-models --overwrite",
        prepare=_compiled,
        run=lambda at: _compile(at, ("a", "c"), overwrite=True),
        target="p",
        is_stepwise=True,
        may_lack=True,
        flaw=_context_that_does_not_run,
    ),
    Scenario(
        name="compile --renew",
        prepare=_with_stale_variant,
        run=_renew,
        target="p",
        flaw=_variant_that_does_not_run,
    ),
    *STORE_SCENARIOS,
    *COMMAND_SCENARIOS,
)
