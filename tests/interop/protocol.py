"""What tests ask of an onnxruntime release in its child, and its answers: lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Stage(StrEnum):
    """The steps of a walk, in order. 1.26 and 1.27 do all but the last at SESSION."""

    OPEN = "open"
    SELECT = "select"
    SESSION = "session"
    RUN = "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Eps:
    """Which execution providers the caller asks for.

    Attributes:
        appended: by name, in order.
        devices_of: EPs whose devices are appended after those
            (``SessionOptionsAppendExecutionProvider_V2``).
        policy: ``OrtExecutionProviderDevicePolicy``, or None.
    """

    appended: tuple[str, ...] = ()
    devices_of: tuple[str, ...] = ()
    policy: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatTensor:
    """Elements in row-major order."""

    shape: tuple[int, ...]
    elements: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A string reference to resolve.

    ``base`` is relative to the package, "" the default (the package itself).
    """

    text: str
    base: str = ""
    must_exist: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """Open a package, look at it, resolve references, select a variant, make a session, run it.

    Stop at an error.

    Attributes:
        root: the package's directory, or, where ``is_model``, the path that CreateSession gets for
            a model's.
        component: the one to select; None stops after the references.
        session: whether to go on to a session and a run.
        own_options: session options of the caller; None lets the package's apply.
        feed: for the model's only input, ``input_name``.
    """

    root: str
    component: str | None = None
    eps: Eps = field(default_factory=Eps)
    references: tuple[Reference, ...] = ()
    session: bool = True
    own_options: Mapping[str, str] | None = None
    feed: FloatTensor = FloatTensor(shape=(2,), elements=(1.0, 2.0))
    input_name: str = "x"
    is_model: bool = False

    def dump(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, line: str) -> Walk:
        fields: dict[str, Any] = json.loads(line)
        fields["eps"] = Eps(**{key: _tuple(value) for key, value in fields["eps"].items()})
        fields["references"] = tuple(Reference(**each) for each in fields["references"])
        fields["feed"] = FloatTensor(
            **{key: _tuple(value) for key, value in fields["feed"].items()}
        )
        return cls(**fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An error status, and the stage that it ended."""

    stage: Stage
    code: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a release made of a :class:`Walk`.

    Attributes:
        version: of the release.
        schema_version, components: as the release reports them (component → variant → EP).
        references: for each reference its path, or "error CODE: TEXT".
        variant, directory: what was selected, where the release says so; the directory is "" if
            there is none.
        outputs: elements of each output.
        refusal: where and why it ended early, or None.
        crash: how the process ended, where it did not answer.
    """

    version: str = ""
    schema_version: int | None = None
    components: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    references: tuple[str, ...] = ()
    variant: str | None = None
    directory: str | None = None
    outputs: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    refusal: Refusal | None = None
    crash: str = ""

    def dump(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, line: str) -> Outcome:
        fields: dict[str, Any] = json.loads(line)
        fields["references"] = tuple(fields["references"])
        fields["outputs"] = {name: tuple(elements) for name, elements in fields["outputs"].items()}
        if fields["refusal"] is not None:
            stage = Stage(fields["refusal"].pop("stage"))
            fields["refusal"] = Refusal(stage=stage, **fields["refusal"])
        return cls(**fields)


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
