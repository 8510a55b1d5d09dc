"""What is shipped: schemas are the same in checkout, sdist and wheel, and found there."""

import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from ortpkg.documents.document_schemas import schemas_directory

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
        "import ortpkg, ortpkg.documents.document_schemas as schemas\n"
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
    folder = ROOT / "ortpkg" / "devices" / "built_in_profiles"
    expected = {path.name: path.read_bytes() for path in folder.glob("*.json")}
    assert len(expected) == 4
    with zipfile.ZipFile(next(distributions.glob("*.whl"))) as wheel:
        prefix = "ortpkg/devices/built_in_profiles/"
        names = [name for name in wheel.namelist() if name.startswith(prefix)]
        assert {name.removeprefix(prefix): wheel.read(name) for name in names} == expected
