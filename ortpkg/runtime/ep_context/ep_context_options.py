"""Session options of the EPContext design, read from config entries into one frozen value.

Source: the EPContext design's table of session options. The keys are those of ONNX Runtime.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ortpkg.foundations.errors import InvalidSessionOptionError, SessionError, quoted
from ortpkg.runtime.ep_context.cache_owner import foreign_writers
from ortpkg.runtime.ep_context.ep_context_cache import EpContextCache, context_cache_directory
from ortpkg.runtime.ep_context.mapped_context import MappedContext

_log = logging.getLogger(__name__)

CONTEXT_ENABLE = "ep.context_enable"
CONTEXT_FILE_PATH = "ep.context_file_path"
CONTEXT_EMBED_MODE = "ep.context_embed_mode"
CONTEXT_NODE_NAME_PREFIX = "ep.context_node_name_prefix"
EXTERNAL_DATA_FOLDER = "session.model_external_initializers_file_folder_path"
CONTEXT_EXTERNAL_INITIALIZERS = "ep.context_model_external_initializers_file_name"
SHARE_EP_CONTEXTS = "ep.share_ep_contexts"
STOP_SHARE_EP_CONTEXTS = "ep.stop_share_ep_contexts"
#: ortpkg's own: "1" stores compiled contexts for later sessions under the cache directory; a path
#: stores them there.
CONTEXT_CACHE = "ortpkg.ep_context_cache"
#: ortpkg's own: form of new contexts: "ortpkg" (default), or "onnxruntime" for contexts that its
#: execution providers can read, too.
CONTEXT_FORM = "ortpkg.ep_context_form"
FORM_OF_ORTPKG, FORM_OF_ONNXRUNTIME = "ortpkg", "onnxruntime"

_MODEL_SUFFIX = ".onnx"
_CONTEXT_SUFFIX = "_ctx.onnx"


@dataclass(frozen=True, slots=True, kw_only=True)
class EpContextOptions:
    """Options of a session about compiled contexts.

    Attributes:
        enable: True to write the context model; only then the attributes marked with * matter.
        file_path: path of the context model *, or, for a model from memory, the path that it came
            from; None if not given.
        embed_mode: * True to store contexts in the nodes rather than in a file beside the model
            (off by default, unlike the attribute).
        node_name_prefix: * prefix of node names, partition names and graph names.
        external_initializers: * name of the file for the initializers of nodes on the CPU; "" to
            store them in the ONNX file.
        share: True if the session belongs to a group.
        stop_share: True for the group's last session.
        for_onnxruntime: * True to write contexts in the form of onnxruntime's execution provider of
            the name.
        model_path: path of the source model; None for a model from memory.
        cache: cache for contexts made at run time; None for no cache.
        only_contexts: True if the model was partitioned before: nodes without a context are the
            CPU's.
        only_explains_cache: True to compile nothing, and only report what the cache has.
        wait_limit_s: longest wait in seconds for another process that compiles the same; None for
            the cache's own limit.
        check_cancelled: called during waits; raises if the session is no longer wanted.
        judged: context files that were accepted for loading, by path: only these are loaded, as
            they were opened. None if nothing was checked.
        read_data: returns the contexts that nodes name, by these names; None to read files.
        write_data: * takes new contexts with the names that nodes get for them; None to write
            files.
    """

    enable: bool = False
    file_path: Path | None = None
    embed_mode: bool = False
    node_name_prefix: str = ""
    external_initializers: str = ""
    share: bool = False
    stop_share: bool = False
    for_onnxruntime: bool = False
    model_path: Path | None = None
    cache: EpContextCache | None = None
    only_contexts: bool = False
    only_explains_cache: bool = False
    wait_limit_s: float | None = None
    check_cancelled: Callable[[], None] = field(default=lambda: None, compare=False, repr=False)
    judged: Mapping[Path, MappedContext] | None = field(default=None, compare=False, repr=False)
    read_data: Callable[[str], memoryview] | None = field(default=None, compare=False, repr=False)
    write_data: Callable[[str, memoryview], None] | None = field(
        default=None, compare=False, repr=False
    )

    @property
    def model_folder(self) -> Path | None:
        """Folder to which paths of external contexts are relative; None if unknown."""
        if self.model_path is not None:
            return self.model_path.parent
        return None if self.file_path is None else self.file_path.parent

    @property
    def output_path(self) -> Path:
        """Path of the context model.

        Raises:
            InvalidSessionOptionError: the model came from memory and no path is given.
        """
        if self.file_path is not None:
            return self.file_path
        if self.model_path is None:
            raise InvalidSessionOptionError(
                "the model comes from memory, so nothing tells where its context model goes: set"
                f" {CONTEXT_FILE_PATH}",
                key=CONTEXT_FILE_PATH,
            )
        name = self.model_path.name
        stem = name[: -len(_MODEL_SUFFIX)] if name.lower().endswith(_MODEL_SUFFIX) else name
        return self.model_path.with_name(stem + _CONTEXT_SUFFIX)

    def binary_name(self, ep_name: str) -> str:
        """Return ``[model_name]_[ep].bin``.

        The model is the source model, or the context model if its path is given. The latter is
        onnxruntime's rule: contexts of one source for several precisions can share a folder.
        """
        named = (
            self.model_path
            if self.file_path is None and self.model_path is not None
            else self.output_path
        )
        stem = (
            named.name[: -len(_MODEL_SUFFIX)]
            if named.name.lower().endswith(_MODEL_SUFFIX)
            else named.name
        )
        return f"{stem}_{ep_name.removesuffix('ExecutionProvider').lower()}.bin"


def ep_context_options(entries: Mapping[str, str], model_path: Path | None) -> EpContextOptions:
    """Read the options from a session's config entries.

    Args:
        entries: config entries of the session options.
        model_path: path of the model; None for a model from memory.

    Raises:
        InvalidSessionOptionError: a flag that is neither "0" nor "1", no path for a context model
            from memory, a path that is a directory, or a name of external initializers that is not
            a plain file name or exists already.
        SessionError: the context model exists already; checked before anything is compiled.
    """
    path = entries.get(CONTEXT_FILE_PATH) or None
    options = EpContextOptions(
        enable=_flag(entries, CONTEXT_ENABLE),
        file_path=None if path is None else Path(path),
        embed_mode=_flag(entries, CONTEXT_EMBED_MODE),
        node_name_prefix=entries.get(CONTEXT_NODE_NAME_PREFIX, ""),
        external_initializers=_file_name(entries, CONTEXT_EXTERNAL_INITIALIZERS),
        share=_flag(entries, SHARE_EP_CONTEXTS),
        stop_share=_flag(entries, STOP_SHARE_EP_CONTEXTS),
        for_onnxruntime=_is_for_onnxruntime(entries),
        model_path=model_path,
        cache=context_cache_of(entries),
    )
    if refusal := refused_cache(entries):
        _log.warning("%s", refusal)
    if options.enable:
        _check_output(options)
    return options


def _check_output(options: EpContextOptions) -> None:
    output = options.output_path
    _check_can_be_a_file(output)
    if output.is_dir():
        raise InvalidSessionOptionError(
            f"{CONTEXT_FILE_PATH} {quoted(output)} is a directory", key=CONTEXT_FILE_PATH
        )
    if options.model_path is not None and output.absolute() == options.model_path.absolute():
        raise InvalidSessionOptionError(
            f"{CONTEXT_FILE_PATH} {quoted(output)} is the source model itself",
            key=CONTEXT_FILE_PATH,
        )
    if output.exists():
        raise SessionError(
            f"{CONTEXT_FILE_PATH}: {quoted(output)} exists already; delete it or name another file:"
            " a context model is never written over"
        )
    if options.external_initializers:
        _check_external_initializers(output, output.with_name(options.external_initializers))


def _check_can_be_a_file(output: Path) -> None:
    try:
        os.lstat(output)
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, ValueError) as error:
        raise InvalidSessionOptionError(
            f"{CONTEXT_FILE_PATH} {quoted(output)} can be no file: {quoted(error)}",
            key=CONTEXT_FILE_PATH,
        ) from error


def _check_external_initializers(output: Path, path: Path) -> None:
    if path.name.casefold() == output.name.casefold():
        raise InvalidSessionOptionError(
            f"{CONTEXT_EXTERNAL_INITIALIZERS}: {quoted(path.name)} is the context model itself;"
            " name another file",
            key=CONTEXT_EXTERNAL_INITIALIZERS,
        )
    if os.path.lexists(path):
        raise InvalidSessionOptionError(
            f"{CONTEXT_EXTERNAL_INITIALIZERS}: {quoted(path)} exists already, and may be what the"
            " source model reads; name a new file: none is ever written over",
            key=CONTEXT_EXTERNAL_INITIALIZERS,
        )


def context_cache_of(entries: Mapping[str, str]) -> EpContextCache | None:
    """Return the cache for contexts of a session with these config entries.

    None for no cache, or if others may write to it: a context is code, and one from another user
    would run with this user's rights.
    """
    folder = _cache_folder(entries)
    return None if folder is None or foreign_writers(folder) else EpContextCache(folder)


def refused_cache(entries: Mapping[str, str]) -> str:
    """Return why the cache in these config entries is not used; "" if it is, or none is named."""
    folder = _cache_folder(entries)
    why = "" if folder is None else foreign_writers(folder)
    return f"the cache of contexts {quoted(folder)} is not used: {why}" if why else ""


def _cache_folder(entries: Mapping[str, str]) -> Path | None:
    value = entries.get(CONTEXT_CACHE, "")
    if value in ("", "0"):
        return None
    return context_cache_directory() if value == "1" else Path(value)


def _is_for_onnxruntime(entries: Mapping[str, str]) -> bool:
    form = entries.get(CONTEXT_FORM) or FORM_OF_ORTPKG
    if form not in (FORM_OF_ORTPKG, FORM_OF_ONNXRUNTIME):
        raise InvalidSessionOptionError(
            f'{CONTEXT_FORM} is "{FORM_OF_ORTPKG}" or "{FORM_OF_ONNXRUNTIME}", not {quoted(form)}',
            key=CONTEXT_FORM,
        )
    return form == FORM_OF_ONNXRUNTIME


def _flag(entries: Mapping[str, str], key: str) -> bool:
    value = entries.get(key, "0")
    if value not in ("0", "1"):
        raise InvalidSessionOptionError(f'{key} is "0" or "1", not {quoted(value)}', key=key)
    return value == "1"


def _file_name(entries: Mapping[str, str], key: str) -> str:
    name = entries.get(key, "")
    if name and (name in (".", "..") or any(character in name for character in "/\\:\0")):
        raise InvalidSessionOptionError(
            f"{key} is the name of a file beside the context model, not {quoted(name)}", key=key
        )
    return name
