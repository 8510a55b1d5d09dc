"""Compile models to context models, one by one, or as a group that shares one binary.

It does what a session does with ``ep.context_enable``, for a list of models, on an EP device of
this machine. A child process compiles, so that a compiler that crashes, hangs or exits becomes an
error here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ortpkg.foundations.ep_names import resolve_ep_name
from ortpkg.foundations.errors import (
    CompileError,
    InvalidSessionOptionError,
    NoSuitableVariantError,
    OrtpkgError,
    ProfileError,
    StatusCode,
    UnknownExecutionProviderError,
    UsageError,
    quoted,
)
from ortpkg.foundations.isolation.child import ChildOutcome, call_in_child
from ortpkg.graph.onnx_reader import load_model
from ortpkg.machine.hardware import EpDevice
from ortpkg.machine.machine_probe import probe
from ortpkg.runtime.engine.node_refusals import refusal_summary
from ortpkg.runtime.engine.partition import Partition
from ortpkg.runtime.ep_context.context_node import ep_context_attributes, ep_context_nodes
from ortpkg.runtime.ep_context.ep_context_options import (
    CONTEXT_EMBED_MODE,
    CONTEXT_ENABLE,
    CONTEXT_FILE_PATH,
    CONTEXT_FORM,
    CONTEXT_NODE_NAME_PREFIX,
    EXTERNAL_DATA_FOLDER,
    FORM_OF_ONNXRUNTIME,
    FORM_OF_ORTPKG,
    SHARE_EP_CONTEXTS,
    STOP_SHARE_EP_CONTEXTS,
)
from ortpkg.runtime.ep_context.ep_context_workspace import abandon_groups
from ortpkg.runtime.ep_context.judged_contexts import load_only
from ortpkg.runtime.providers.absent_devices import absent_device_text, find_absent_device
from ortpkg.runtime.providers.ep_registry import find_factory
from ortpkg.runtime.providers.missing_libraries import absent_library_text
from ortpkg.runtime.providers.native_group import GROUP_LOG
from ortpkg.runtime.providers.node_work import OPERATIONS_PER_CALL, OPERATIONS_PER_PIECE
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import SessionOptions

_FUNCTION = "ortpkg.runtime.session.compile_models:compile_for_parent"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileJob:
    """A model to compile.

    Attributes:
        model: path of the source model.
        output: path of the context model to write; no file exists there yet.
        prefix: prefix of the partition names, unique among the models of a group.
        data_folder: folder of the source's external data; "" for the source's own folder.
        provider_options: options of the EP for this model, added to those of the request.
        context_digests: SHA-256 of the native contexts that the source may contain; None allows
            any.
    """

    model: str
    output: str
    prefix: str = ""
    data_folder: str = ""
    provider_options: Mapping[str, str] = field(default_factory=dict)
    context_digests: Collection[str] | None = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileRequest:
    """Models to compile, and the execution provider to compile them for.

    Attributes:
        jobs: the models in order; the first names the binary of a group.
        ep: the execution provider's full name or an alias.
        device: "cpu", "gpu" or "npu"; None for the first that the EP offers.
        backend: provider of the EP: "onnxruntime", a plug-in's name, ...; None for the first that
            has it.
        provider_options: options of the EP.
        config_entries: config entries of the compiling sessions; the other fields of this request
            take precedence.
        is_embedded: True to store contexts in the models instead of in a file beside them.
        is_shared: True to make a session group: one binary, equal weights stored once.
        for_onnxruntime: True to write contexts in the form that onnxruntime's EP of this name
            reads.
        memory_limit_nbytes: most bytes that the compiling child process and its children may hold
            before they are ended; None: no limit.
        for_device: an absent device as
            :func:`~ortpkg.runtime.providers.absent_devices.find_absent_device` takes it, for which
            onnxruntime's EP compiles; "" for a device of this machine.
    """

    jobs: tuple[CompileJob, ...]
    ep: str
    device: str | None = None
    backend: str | None = None
    provider_options: Mapping[str, str] = field(default_factory=dict)
    config_entries: Mapping[str, str] = field(default_factory=dict)
    is_embedded: bool = False
    is_shared: bool = False
    for_onnxruntime: bool = False
    memory_limit_nbytes: int | None = None
    for_device: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledShare:
    """Share of a model that compiled code covers, each from 0 to 1.

    Attributes:
        nodes: share of the nodes, after basic optimizations.
        work: share of the operations, counted from sizes; unknown sizes get nominal values.
        calls: estimated cost in operations, per operation of the model, of calling the other nodes
            one by one and the compiled code in several pieces between them.
    """

    nodes: float
    work: float
    calls: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledModel:
    """A context model that was written.

    Attributes:
        output: path of the model.
        partitions: number of EPContext nodes.
        other_nodes: number of nodes left to other EPs.
        share: share of the source that compiled code covers; None if the EP does not report it.
        left_by: reasons for leaving nodes to other EPs, as far as the EP gives them.
        files: names of all files that the model needs beside it.
        device: kind of device that it was compiled for; "" if the EP reports none.
        absent_device: device that it was compiled for if this machine does not have it; else "".
    """

    output: Path
    partitions: int
    other_nodes: int
    files: tuple[str, ...]
    device: str
    share: CompiledShare | None = None
    left_by: str = ""
    absent_device: str = ""


def compile_models(
    request: CompileRequest, *, timeout_s: float, notify: Callable[[str], None] | None = None
) -> list[CompiledModel]:
    """Compile models in a child process; an interrupt ends the child.

    Args:
        request: the models, and the execution provider to compile for.
        timeout_s: limit for all models together, in seconds.
        notify: called with a text for each model of a group that keeps weights of its own.

    Returns:
        One result per job, in order.

    Raises:
        CompileError: the compiler failed, crashed, hung, used too much memory or took no node;
            files written so far may remain.
        NoSuitableVariantError: the EP is not available here, or has no such device.
        InvalidSessionOptionError: a config entry or an option of the EP is wrong.
        UsageError: two models would be written to one file.
    """
    check_outputs_differ(request)
    result = call_in_child(
        _FUNCTION,
        {"request": asdict(request)},
        timeout_s=timeout_s,
        memory_limit_nbytes=request.memory_limit_nbytes,
    )
    if result.outcome is not ChildOutcome.DONE:
        raise CompileError(
            f"{resolve_ep_name(request.ep)} did not compile {_listed(request)}: {result.reason}",
            ep_name=resolve_ep_name(request.ep),
        )
    error = result.value.get("error")
    if error is not None:
        raise _error(error, request)
    if notify is not None:
        for note in result.value["notes"]:
            notify(note)
    return [
        CompiledModel(
            **{
                **document,
                "output": Path(document["output"]),
                "files": tuple(document["files"]),
                "share": CompiledShare(**document["share"]) if document["share"] else None,
            }
        )
        for document in result.value["models"]
    ]


def check_outputs_differ(request: CompileRequest) -> None:
    """Raise UsageError if two models would be written to one file."""
    outputs = [job.output for job in request.jobs]
    if len(set(outputs)) < len(outputs):
        twice = next(output for output in outputs if outputs.count(output) > 1)
        raise UsageError(f"two models would become {quoted(twice)}: they must have different names")


def compile_for_parent(request: Mapping[str, Any]) -> dict[str, Any]:
    """Compile in the child process and return the results, or our own errors, as JSON."""
    jobs = tuple(CompileJob(**job) for job in request["jobs"])
    notes = _Notes()
    GROUP_LOG.addHandler(notes)
    try:
        models = _compile(CompileRequest(**{**request, "jobs": jobs}))
    except OrtpkgError as error:
        description = {
            "kind": type(error).__name__,
            "code": error.code.value,
            "message": str(error),
        }
        return {
            "error": {
                **description,
                "key": error.key if isinstance(error, InvalidSessionOptionError) else "",
            }
        }
    finally:
        GROUP_LOG.removeHandler(notes)
    return {
        "models": [{**asdict(model), "output": str(model.output)} for model in models],
        "notes": notes.texts,
    }


class _Notes(logging.Handler):
    """Log handler that collects messages for the parent process."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def _compile(request: CompileRequest) -> list[CompiledModel]:
    if request.for_device:
        absent = find_absent_device(request.ep, request.for_device)
        text = absent_device_text(absent)
        return [
            replace(model, absent_device=text) for model in _compile_in_onnxruntime(request, absent)
        ]
    ep_device = find_ep_device(request.ep, request.device, backend=request.backend)
    if request.for_onnxruntime and ep_device.backend == "onnxruntime":
        return _compile_in_onnxruntime(request, ep_device)
    compiled = []
    for number, job in enumerate(request.jobs):
        options = _session_options(request, job, is_last=number == len(request.jobs) - 1)
        devices = [(ep_device, {**request.provider_options, **job.provider_options})]
        digests = job.context_digests
        session = InferenceSession(
            job.model,
            options,
            ep_devices=devices,
            check_contexts=None
            if digests is None
            else partial(load_only, model=Path(job.model), digests=digests),
            is_confined=True,
            allow_fallback=True,  # a model of which no node was taken is reported below
        )
        if not Path(job.output).exists():
            entries = session.get_placement().entries
            reason = next(
                (
                    entry.reason
                    for entry in entries
                    if entry.ep_name == ep_device.ep_name and entry.reason
                ),
                "",
            )
            session.close()
            error = CompileError(
                f"{ep_device.ep_name} took no node of {quoted(Path(job.model).name)}: there is"
                f" nothing to compile{f' ({reason})' if reason else ''}{_advice(ep_device)}",
                ep_name=ep_device.ep_name,
            )
            abandon_groups([ep_device.ep_name], error)
            raise error
        partitions = session.get_partitions()
        session.close()
        described = _described(
            Path(job.output), "" if ep_device.device is None else ep_device.device.type
        )
        left_by = refusal_summary(partitions) if described.other_nodes else ""
        compiled.append(replace(described, share=_share_of(partitions), left_by=left_by))
    return compiled


def _share_of(partitions: Sequence[Partition]) -> CompiledShare | None:
    """Sum what compiled code covers; None for a model without nodes."""
    counts = [(bool(count.fused_node), len(count.node_names), count.work) for count in partitions]
    nodes, work = (sum(count[column] for count in counts) for column in (1, 2))
    if not nodes:
        return None
    covered = [count for count in counts if count[0]]
    covered_nodes = sum(count[1] for count in covered)
    calls = (nodes - covered_nodes) * OPERATIONS_PER_CALL
    if calls and covered:
        calls += (len(covered) - 1) * OPERATIONS_PER_PIECE
    return CompiledShare(
        nodes=round(covered_nodes / nodes, 4),
        work=round(sum(count[2] for count in covered) / work, 4) if work else 1.0,
        calls=round(calls / max(work, 1), 4),
    )


def _compile_in_onnxruntime(request: CompileRequest, ep_device: EpDevice) -> list[CompiledModel]:
    """Compile with onnxruntime, whose output is stored unchanged."""
    from ortpkg.runtime.providers.onnxruntime_compiler import (
        OnnxRuntimeCompiler,  # onnxruntime, where it is compiled with
    )

    compiler = OnnxRuntimeCompiler(ep_device, request.provider_options)
    compiled = []
    for number, job in enumerate(request.jobs):
        is_last = number == len(request.jobs) - 1
        compiler.compile(
            Path(job.model),
            Path(job.output),
            data_folder=job.data_folder,
            is_embedded=request.is_embedded,
            config_entries={**request.config_entries, **_sharing_entries(request, is_last=is_last)},
        )
        compiled.append(
            _described(Path(job.output), "" if ep_device.device is None else ep_device.device.type)
        )
    return compiled


def _sharing_entries(request: CompileRequest, *, is_last: bool) -> dict[str, str]:
    if not request.is_shared:
        return {}
    return {SHARE_EP_CONTEXTS: "1", **({STOP_SHARE_EP_CONTEXTS: "1"} if is_last else {})}


def _advice(ep_device: EpDevice) -> str:
    if ep_device.backend != "embedded":
        return ""
    return (
        f"; the embedded {ep_device.ep_name} compiles nothing: take the llvm EP (--ep llvm), or"
        " the EP of that name in onnxruntime (--backend onnxruntime)"
    )


def find_ep_device(ep: str, device: str | None, *, backend: str | None = None) -> EpDevice:
    """Return the first EP device of this EP, kind and backend that the machine offers.

    Raises:
        NoSuitableVariantError: there is none; the message lists what the machine has.
    """
    name = resolve_ep_name(ep)
    try:
        factory = find_factory(name, backend=backend)
    except UnknownExecutionProviderError as error:
        raise NoSuitableVariantError(
            f"nothing can be compiled for {quoted(ep)}: {error}"
        ) from error
    if not factory.is_available():
        raise NoSuitableVariantError(absent_library_text(name, factory.backend))
    offered = factory.get_supported_devices(probe().hardware)
    for ep_device in offered:
        if device is None or (ep_device.device is not None and ep_device.device.type == device):
            return ep_device
    if not offered and factory.nothing_offered_note:
        raise NoSuitableVariantError(factory.nothing_offered_note)
    kinds = (
        ", ".join(
            dict.fromkeys(str(ep_device.device.type) for ep_device in offered if ep_device.device)
        )
        or "no devices"
    )
    raise NoSuitableVariantError(
        f"{name} has no {device or 'device'} on this machine; it has {kinds}"
    )


def _session_options(request: CompileRequest, job: CompileJob, *, is_last: bool) -> SessionOptions:
    entries = {
        CONTEXT_ENABLE: "1",
        CONTEXT_FILE_PATH: job.output,
        CONTEXT_EMBED_MODE: "1" if request.is_embedded else "0",
        CONTEXT_NODE_NAME_PREFIX: job.prefix,
        EXTERNAL_DATA_FOLDER: job.data_folder,
        SHARE_EP_CONTEXTS: "1" if request.is_shared else "0",
        STOP_SHARE_EP_CONTEXTS: "1" if request.is_shared and is_last else "0",
        CONTEXT_FORM: FORM_OF_ONNXRUNTIME if request.for_onnxruntime else FORM_OF_ORTPKG,
    }
    options = SessionOptions()
    for key, value in {
        **request.config_entries,
        **{key: value for key, value in entries.items() if value},
    }.items():
        options.add_session_config_entry(key, value)
    return options


def _described(output: Path, device: str) -> CompiledModel:
    graph = load_model(output).graph
    contexts = [ep_context_attributes(node) for node in ep_context_nodes(graph)]
    files = dict.fromkeys(
        context.context_path
        for context in contexts
        if context.main_context and not context.embed_mode
    )
    return CompiledModel(
        output=output,
        partitions=len(contexts),
        other_nodes=len(graph) - len(contexts),
        files=tuple(files),
        device=device,
    )


def _error(description: Mapping[str, str], request: CompileRequest) -> OrtpkgError:
    if description["kind"] == NoSuitableVariantError.__name__:
        return NoSuitableVariantError(description["message"])
    if description["kind"] in {
        UsageError.__name__,
        ProfileError.__name__,
    }:  # raised for ``for_device``
        return UsageError(description["message"])
    if description["kind"] == InvalidSessionOptionError.__name__:
        return InvalidSessionOptionError(description["message"], key=description["key"])
    status = (
        ""
        if description["code"] in (StatusCode.FAIL, StatusCode.EP_FAIL)
        else f" ({description['code']})"
    )
    return CompileError(f"{description['message']}{status}", ep_name=resolve_ep_name(request.ep))


def _listed(request: CompileRequest) -> str:
    return ", ".join(quoted(Path(job.model).name) for job in request.jobs)
