"""What ``import ortpkg`` costs and offers."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import ortpkg
from ortpkg.distribution.publishing import publish
from ortpkg.distribution.registry.oci_layout import OciLayout
from ortpkg.foundations.public_names import MODULE_OF_NAME

ROOT = Path(__file__).resolve().parents[1]
DIGITS = ROOT / "sample_packages" / "digits.ortpackage"


def modules_loaded_by(program: str) -> set[str]:
    code = f"{program}\nimport sys; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split("\n")[-2].split())


def without_typer_s_own(loaded: set[str]) -> set[str]:
    """Without what pydantic loads, by which typer from 0.29 on reads values."""
    if "pydantic" not in loaded:
        return loaded
    return loaded - modules_loaded_by("import pydantic.types; pydantic.TypeAdapter(int)")


@pytest.mark.parametrize(
    "heavy",
    ["numpy", "onnx", "jsonschema", "typer", "rich", "openvino", "onnxruntime", "urllib3"],
)
def test_import_loads_nothing_heavy(heavy: str) -> None:
    assert heavy not in modules_loaded_by("import ortpkg")


def test_every_public_name_exists() -> None:
    names = set(ortpkg.__all__) - {"__version__"}
    assert len(names) > 100
    assert [name for name in names if getattr(ortpkg, name) is None] == []
    assert names <= set(dir(ortpkg))


def test_opening_and_selecting_loads_neither_numpy_nor_onnx() -> None:
    loaded = modules_loaded_by(f"import ortpkg; ortpkg.ModelPackage({str(DIGITS)!r}).select()")
    assert "ortpkg.selection.matching.selector" in loaded
    assert not {"numpy", "onnx", "jsonschema", "typer", "rich"} & loaded


def test_modules_that_say_so_import_neither_numpy_nor_onnx() -> None:
    said = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in sorted((ROOT / "ortpkg").rglob("*.py"))
        if "neither numpy nor onnx" in (ast.get_docstring(ast.parse(path.read_bytes())) or "")
    ]
    assert "ortpkg.runtime.session.options" in said
    assert not {"numpy", "onnx"} & modules_loaded_by(f"import {', '.join(said)}")


def test_ortpkg_select_loads_nothing_that_it_does_not_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of these takes 1 to 20 ms, of 100 on a quiet machine.

    What all take: benchmarks/select_process.py.
    """
    monkeypatch.setenv("ORTPKG_STATE_DIR", str(tmp_path))  # other tests may have left records
    program = f"from ortpkg.cli.app import run; run(['select', {str(DIGITS)!r}])"
    modules_loaded_by(program)  # asks the backends, where nobody has before
    unneeded = {
        *(
            "_hashlib",
            "importlib.metadata",
            "logging",
            "psutil",
            "rich",
            "zipfile",
            "ctypes",
        ),
        *("jsonschema", "numpy", "onnx", "onnxruntime", "openvino", "archspec"),
        *("urllib3", "cryptography", "ssl", "http.client"),
        *(
            "ortpkg.machine.profiles",
            "ortpkg.runtime.ep_context.ep_context_descriptor",
            "ortpkg.selection.matching.explanation",
            "ortpkg.selection.matching.measurements",
            "ortpkg.selection.matching.record_index",
            "ortpkg.cli.comparison_table",
            "ortpkg.cli.table_layout",
            "ortpkg.distribution.used_packages",
            "ortpkg.runtime.ep_context.ep_context_descriptor",
            "ortpkg.foundations.isolation.child",
            "ortpkg.graph.custom_op_registry",
            "ortpkg.runtime.providers.ep_discovery.ep_candidate_scan",
            "ortpkg.selection.matching.measurements",
            "tomllib",
        ),
    }
    loaded = without_typer_s_own(modules_loaded_by(program))
    assert "ortpkg.cli.select" in loaded
    assert not unneeded & loaded, sorted(unneeded & loaded)
    rooms = (
        "ortpkg.distribution.store",
        "ortpkg.distribution.registry",
        "ortpkg.runtime.session",
        "ortpkg.runtime.engine",
        "ortpkg.selection.releases",
    )
    assert not [name for name in loaded if name.startswith(rooms)]
    own = [name for name in loaded if name.startswith("ortpkg")]
    assert len(own) < 180, f"{len(own)} modules: which are new, and do all have to load?"
    assert len(loaded) < 373, f"{len(loaded)} modules: which are new, and do all have to load?"


#: Prints the dataclasses of all modules that are loaded.
_LIST_DATACLASSES = """
import dataclasses, sys
modules = [module for name, module in sys.modules.items() if name.startswith("ortpkg")]
values = [value for module in modules for value in vars(module).values()]
print(*{each.__name__ for each in filter(dataclasses.is_dataclass, values) if type(each) is type})
"""


def test_ortpkg_select_makes_dataclasses_of_nothing_but_what_users_hold_and_its_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes as long as five named tuples; sixty of them were a third of the command."""
    monkeypatch.setenv("ORTPKG_STATE_DIR", str(tmp_path))
    program = f"from ortpkg.cli.app import run; run(['select', {str(DIGITS)!r}])"
    modules_loaded_by(program)  # asks the backends, where nobody has before
    done = subprocess.run(
        [sys.executable, "-c", program + _LIST_DATACLASSES],
        capture_output=True,
        text=True,
        check=True,
    )
    held_by_users = {
        *("EpDevice", "Finding", "HardwareDevice", "Machine"),
        *("ComponentInfo", "PackageInfo", "VariantInfo"),
        *("Selection", "SelectionWishes", "Verdict"),
    }
    groups_of_options = {"VariantChoice", "VariantFilter"}
    assert set(done.stdout.split("\n")[-2].split()) == held_by_users | groups_of_options


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'ortpkg' has no attribute 'Nothing'"):
        _ = ortpkg.Nothing


def test_type_checkers_read_the_names_that_python_finds() -> None:
    tree = ast.parse(Path(ortpkg.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    read = {
        (each.module, name.name, name.asname)
        for each in block.body
        if isinstance(each, ast.ImportFrom) and each.module not in ("ortpkg", "ortpkg.foundations")
        for name in each.names
    }
    assert read == {(module, name, name) for name, module in MODULE_OF_NAME.items()}


def test_installing_what_the_store_has_loads_neither_numpy_nor_onnx(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORTPKG_STORE", str(tmp_path / "store"))
    monkeypatch.setattr(
        "ortpkg.foundations.storage.package_lock.locks_directory", lambda: tmp_path / "locks"
    )
    publish(DIGITS, OciLayout(tmp_path / "layout"), tags=["1"])
    words = ["install", f"oci-layout:{tmp_path}/layout:1", "--profile", "plain-server"]
    program = f"from ortpkg.cli.app import run; run({words!r})"
    modules_loaded_by(program)

    loaded = without_typer_s_own(modules_loaded_by(program))

    assert "ortpkg.distribution.installation" in loaded
    assert not {"numpy", "onnx", "urllib3", "cryptography", "zipfile", "jsonschema"} & loaded
