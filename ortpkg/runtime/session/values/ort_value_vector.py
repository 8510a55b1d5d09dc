"""OrtValueVector: a list of OrtValues with the methods of onnxruntime's native one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ortpkg.foundations.errors import UsageError
from ortpkg.graph.types import ElementType
from ortpkg.runtime.session.values.ort_device import OrtDevice, check_is_host
from ortpkg.runtime.session.values.ort_value import OrtValue, array_at


class OrtValueVector:
    """Inputs and outputs of ``run_with_ortvaluevector``."""

    def __init__(self, values: Iterable[OrtValue] = ()) -> None:
        self._values = list(values)

    def push_back(self, value: OrtValue | Any, is_bool_tensor: bool = False) -> None:
        """Add a value, or the tensor of a DLPack capsule.

        With ``is_bool_tensor``, a capsule's uint8 tensor becomes one of bool.
        """
        if isinstance(value, OrtValue):
            self._values.append(value)
            return
        imported = OrtValue.from_dlpack(value)
        is_byte = imported.element_type() == ElementType.UINT8
        self._values.append(
            OrtValue(imported.numpy().view(np.bool_)) if is_bool_tensor and is_byte else imported
        )

    def push_back_batch(
        self,
        tensors: Sequence[Any],
        data_ptrs: Sequence[int],
        element_types: Sequence[Any],
        shapes: Sequence[Sequence[int]],
        devices: Sequence[OrtDevice],
    ) -> None:
        """Add tensors of another library by their addresses.

        Raises:
            UsageError: the arguments have different lengths.
        """
        if len({len(tensors), len(data_ptrs), len(element_types), len(shapes), len(devices)}) != 1:
            raise UsageError(
                "push_back_batch takes as many addresses, types, shapes and devices as tensors"
            )
        for tensor, address, element_type, shape, device in zip(
            tensors, data_ptrs, element_types, shapes, devices, strict=True
        ):
            check_is_host(device)
            self._values.append(_Borrowed(array_at(address, shape, element_type), tensor))

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, index: int) -> OrtValue:
        return self._values[index]

    def __iter__(self) -> Iterator[OrtValue]:
        return iter(self._values)

    def reserve(self, count: int) -> None:
        """Do nothing: a list grows by itself."""

    def shrink_to_fit(self) -> None:
        """Do nothing: a list manages its memory."""

    def bool_tensor_indices(self) -> list[int]:
        """Return the indices of bool tensors, which DLPack has as uint8."""
        return [
            index
            for index, value in enumerate(self)
            if value.is_tensor() and value.data_type() == "tensor(bool)"
        ]

    def element_type_at(self, index: int) -> int:
        """Return the number in TensorProto.DataType of a tensor's elements."""
        return self[index].element_type()

    def dlpack_at(self, index: int) -> Any:
        """Return one tensor as a DLPack capsule."""
        return self[index].to_dlpack()

    def to_dlpacks(self, to_tensor: Callable[[Any], Any] | None) -> list[Any]:
        """Return all tensors as DLPack capsules, each converted by ``to_tensor`` if given."""
        capsules = [value.to_dlpack() for value in self]
        return capsules if to_tensor is None else [to_tensor(capsule) for capsule in capsules]


class _Borrowed(OrtValue):
    """A tensor in memory of another object, which it keeps alive."""

    def __init__(self, value: Any, owner: Any) -> None:
        super().__init__(value)
        self._owner = owner
