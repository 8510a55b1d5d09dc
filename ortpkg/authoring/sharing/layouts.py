"""Layouts of shared weights, as data: the answers in which they differ (ADR 7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

CHECKSUM_FOLDER = "shared_weights"


class SharedLayout(StrEnum):
    """Name of a layout, as users give it; :data:`LAYOUTS` says what it means."""

    COMMON_DIRECTORY = "common-directory"
    SHARED_WEIGHTS = "shared-weights"
    SHARED_ASSETS = "shared-assets"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Answers in which one layout differs from the others.

    Attributes:
        data_file: name of a new data file in the folder of the shared data; ``{sha256}`` is the
            digest of its content. "" if data files are shared whole and keep their names.
        fills_component_folder: all that several models store goes into new data files in the
            component's own folder, where models are named after their variants. Otherwise data
            stays where a variant has it, and only what moves out of ONNX files needs a new file.
        moves_models: models move to the folder of the shared data. Otherwise they stay where they
            are, a session option names that folder, and models of all components may share it.
    """

    data_file: str
    fills_component_folder: bool = False
    moves_models: bool = True


LAYOUTS: Mapping[SharedLayout, Layout] = MappingProxyType(
    {
        SharedLayout.COMMON_DIRECTORY: Layout(data_file="shared.data"),
        SharedLayout.SHARED_WEIGHTS: Layout(
            data_file=CHECKSUM_FOLDER + "/{sha256}/model.data", fills_component_folder=True
        ),
        SharedLayout.SHARED_ASSETS: Layout(data_file="", moves_models=False),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingOptions:
    """Options of sharing.

    Attributes:
        layout: of shared data.
        smallest_embedded_nbytes: weights of this size and more in ONNX files are shared too, and
            move out of them; None leaves them there.
    """

    layout: SharedLayout = SharedLayout.COMMON_DIRECTORY
    smallest_embedded_nbytes: int | None = None

    @property
    def answers(self) -> Layout:
        """Answers of the layout."""
        return LAYOUTS[self.layout]
