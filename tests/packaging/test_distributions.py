"""What is shipped: schemas are the same in checkout, sdist and wheel, and found there."""

import hashlib
import json
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ortpkg.foundations.documents.document_schemas import schemas_directory
from ortpkg.foundations.version import __version__

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = {path.name: path.read_bytes() for path in (ROOT / "schemas").glob("*.json")}


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an sdist, and a wheel that was built from that sdist."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_checkout_reads_the_top_level_schemas() -> None:
    assert schemas_directory() == ROOT / "schemas"
    assert SCHEMAS


def test_sdist_carries_the_schemas_at_its_top_level(distributions: Path) -> None:
    with tarfile.open(next(distributions.glob("*.tar.gz"))) as archive:
        carried = {
            member.name.rsplit("/", 1)[1]: archive.extractfile(member).read()  # type: ignore[union-attr]
            for member in archive.getmembers()
            if member.isfile() and member.name.split("/")[1:-1] == ["schemas"]
        }
    assert carried == SCHEMAS


def test_wheel_carries_the_schemas_inside_the_package(distributions: Path) -> None:
    with zipfile.ZipFile(next(distributions.glob("*.whl"))) as wheel:
        prefix = "ortpkg/schemas/"
        names = [name for name in wheel.namelist() if name.startswith(prefix)]
        assert {name.removeprefix(prefix): wheel.read(name) for name in names} == SCHEMAS
        assert "ortpkg/py.typed" in wheel.namelist()
        assert not [
            name
            for name in wheel.namelist()
            if name.startswith(("tests/", "scripts/", "sample_packages/"))
        ]


def test_code_installed_from_the_wheel_reads_the_wheels_schemas(
    distributions: Path, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    with zipfile.ZipFile(next(distributions.glob("*.whl"))) as wheel:
        wheel.extractall(site)
    program = (
        f"import json, sys; sys.path.insert(0, {str(site)!r})\n"
        "import ortpkg, ortpkg.foundations.documents.document_schemas as schemas\n"
        "print(json.dumps([ortpkg.__file__, str(schemas.schemas_directory())]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    module, schemas = json.loads(done.stdout)
    assert Path(module).is_relative_to(site)
    assert Path(schemas) == site / "ortpkg" / "schemas"


def test_wheel_carries_the_built_in_profiles(distributions: Path) -> None:
    folder = ROOT / "ortpkg" / "machine" / "built_in_profiles"
    expected = {path.name: path.read_bytes() for path in folder.glob("*.json")}
    assert len(expected) == 4
    with zipfile.ZipFile(next(distributions.glob("*.whl"))) as wheel:
        prefix = "ortpkg/machine/built_in_profiles/"
        names = [name for name in wheel.namelist() if name.startswith(prefix)]
        assert {name.removeprefix(prefix): wheel.read(name) for name in names} == expected


def test_wheel_carries_a_bill_of_materials(distributions: Path) -> None:
    with zipfile.ZipFile(next(distributions.glob("*.whl"))) as wheel:
        (name,) = [name for name in wheel.namelist() if ".dist-info/sboms/" in name]
        bill = json.loads(wheel.read(name))
        carried = {name: wheel.read(name) for name in wheel.namelist() if "/vendor/" in name}
    assert name.endswith("/ortpkg.cdx.json")
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["purl"] == f"pkg:pypi/ortpkg@{__version__}"
    assert bill["metadata"]["component"]["licenses"] == [{"license": {"id": "MIT"}}]
    (dagre,) = [part for part in bill["components"] if part["purl"].startswith("pkg:npm/")]
    assert dagre["purl"] == "pkg:npm/%40dagrejs/dagre@3.1.3"
    content = carried[dagre["properties"][0]["value"]]
    assert dagre["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(content).hexdigest()}]


def test_the_bill_of_materials_has_every_requirement_with_its_extra(distributions: Path) -> None:
    with zipfile.ZipFile(next(distributions.glob("*.whl"))) as wheel:
        (name,) = [name for name in wheel.namelist() if ".dist-info/sboms/" in name]
        bill = json.loads(wheel.read(name))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    parts = {part["name"]: part for part in bill["components"]}
    refs = {part["bom-ref"] for part in parts.values()}
    assert len(refs) == len(bill["components"])
    (root,) = bill["dependencies"]
    assert set(root["dependsOn"]) <= refs
    required = {Requirement(line).name for line in project["dependencies"]}
    names = {canonicalize_name(name) for name in required}
    scopes = {name for name, part in parts.items() if part["scope"] == "required"}
    assert scopes == names | {"@dagrejs/dagre"}
    properties = [
        (name, found["name"].rpartition("requirement:")[2], found["value"])
        for name, part in parts.items()
        for found in part["properties"]
    ]
    for extra in ("fast", "openvino"):
        assert ("openvino", extra, "openvino>=2025.0") in properties
    assert ("ray", "ray", "ray[data,serve]>=2.52") in properties
    extras = {extra for _, extra, _ in properties}
    assert extras >= project["optional-dependencies"].keys()
