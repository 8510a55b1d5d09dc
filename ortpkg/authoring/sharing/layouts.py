"""Layouts of shared weights, as data: the answers in which they differ (ADR 7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from types import MappingProxyType

CHECKSUM_FOLDER = "shared_weights"


class SharedLayout(StrEnum):
    """Name of a layout, as users give it; :data:`LAYOUTS` says what it means."""

    COMMON_DIRECTORY = "common-directory"
    SHARED_WEIGHTS = "shared-weights"
    SHARED_ASSETS = "shared-assets"


class Home(Enum):
    """Folder that shared data lies in.

    VARIANT: the folder of a variant that has most of the data already.
    COMPONENT: the component's own folder; the models in it are named after their variants.
    ASSET: a shared asset of the package.
    """

    VARIANT = auto()
    COMPONENT = auto()
    ASSET = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Answers in which one layout differs from the others.

    Attributes:
        home: folder of the shared data.
        data_file: name of a new file of data in it; ``{sha256}`` is the digest of its content. ""
            if data files are shared whole and keep their names.
        pools_all: every content that several models store goes into new data files; otherwise only
            what moves out of ONNX files, and the rest stays in the files that have it.
        moves_models: models move to the home, beside the data; otherwise they stay where they are
            and a session option names the home, which models of all components may share.
    """

    home: Home
    data_file: str
    pools_all: bool
    moves_models: bool


LAYOUTS: Mapping[SharedLayout, Layout] = MappingProxyType(
    {
        SharedLayout.COMMON_DIRECTORY: Layout(
            home=Home.VARIANT, data_file="shared.data", pools_all=False, moves_models=True
        ),
        SharedLayout.SHARED_WEIGHTS: Layout(
            home=Home.COMPONENT,
            data_file=CHECKSUM_FOLDER + "/{sha256}/model.data",
            pools_all=True,
            moves_models=True,
        ),
        SharedLayout.SHARED_ASSETS: Layout(
            home=Home.ASSET, data_file="", pools_all=False, moves_models=False
        ),
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
