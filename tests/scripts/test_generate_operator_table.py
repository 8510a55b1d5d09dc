"""The operators' table is generated and current, and no operator is unnoticed without one."""

import onnx
import pytest

from ortpkg.runtime.kernels.reference_kernels import has_reference_implementation
from scripts.generate_operator_table import (
    DOCUMENT,
    defined_versions,
    document,
    documented_onnx_version,
    native_versions,
)

#: Operators whose newest version nothing here runs.
WITHOUT_IMPLEMENTATION: dict[tuple[str, str], str] = {
    (
        "ai.onnx.preview.training",
        "Gradient",
    ): "asks for the derivative of other nodes of its graph: training, not a kernel",
}


def test_committed_table_is_current() -> None:
    if documented_onnx_version() != onnx.__version__:
        pytest.skip(
            f"the table was made with onnx {documented_onnx_version()}, which defines other"
            " versions"
        )
    assert DOCUMENT.read_text(encoding="utf-8") == document(), "run `make docs`"


@pytest.mark.requirement("P14", "D11")
def test_newest_version_of_every_operator_has_an_implementation() -> None:
    native = native_versions()
    missing = {
        (domain, name)
        for (domain, name), versions in defined_versions().items()
        if versions[-1] not in native.get((domain, name), {})
        and not has_reference_implementation(domain, name, versions[-1])
    }
    assert missing == set(WITHOUT_IMPLEMENTATION)
