"""Files of EPContext nodes, each opened once and hashed.

A check by digest hands on the open file, because its path may lead to another file a moment later.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from ortpkg.foundations.ep_names import ep_of_context_source
from ortpkg.foundations.errors import EpContextError, ModelFileError, quoted
from ortpkg.foundations.storage.digest_cache import remembered_sha256
from ortpkg.runtime.ep_context.context_node import EpContextAttributes
from ortpkg.runtime.ep_context.ep_context_options import EpContextOptions
from ortpkg.runtime.ep_context.ep_context_reader import EpContextReader
from ortpkg.runtime.ep_context.mapped_context import MappedContext, map_context


class JudgedContexts:
    """Contexts of one model, found and hashed one after the other."""

    def __init__(self, model: Path) -> None:
        self._model = model
        self._files: dict[Path, MappedContext] = {}
        self._digests: dict[Path, str] = {}
        self._judgements: dict[str, None] = {}

    @property
    def files(self) -> Mapping[Path, MappedContext]:
        """Opened files, by the path that the reader of contexts looks for."""
        return MappingProxyType(self._files)

    @property
    def digests(self) -> tuple[str, ...]:
        """Digests of all contexts that were requested and found, including embedded ones."""
        return tuple(self._judgements)

    def digest_of(self, context: EpContextAttributes) -> str:
        """Return the SHA-256 of the payload or file that an EP would load.

        "" if the file does not exist.

        Raises:
            EpContextError: The path leaves the model's folder.
        """
        digest = (
            _sha256(context.ep_cache_context)
            if context.embed_mode
            else self._digest_of_file(context)
        )
        if digest:
            self._judgements[digest] = None
        return digest

    def _digest_of_file(self, context: EpContextAttributes) -> str:
        # The reader of contexts resolves the path, so that the file that is checked is the one that
        # will be loaded.
        path = EpContextReader(
            context.source, EpContextOptions(model_path=self._model), ()
        ).path_of(context)
        if path not in self._digests:
            try:
                self._files[path] = map_context(path)
            except ModelFileError:
                return ""
            self._digests[path] = cached_file_digest(self._files[path])
        return self._digests[path]


def contexts_to_judge(contexts: Sequence[EpContextAttributes]) -> list[EpContextAttributes]:
    """Return the contexts of a model that foreign code may read.

    Nodes with ``main_context`` 0 and a context are included, because not every EP looks at the
    flag.
    """
    return [context for context in contexts if context.main_context or context.ep_cache_context]


def load_only(
    contexts: Sequence[EpContextAttributes], *, model: Path, digests: Collection[str]
) -> Mapping[Path, MappedContext] | None:
    """Return the files of a model's contexts if all have one of these digests.

    It is for a process that loads what another one checked. Returns None if the model has no
    contexts.

    Raises:
        EpContextError: A context that foreign code may read has another digest.
    """
    native_contexts = contexts_to_judge(contexts)
    if not native_contexts:
        return None
    judged = JudgedContexts(model)
    for context in native_contexts:
        if judged.digest_of(context) not in digests:
            what = "embedded in its model" if context.embed_mode else quoted(context.context_path)
            raise EpContextError(
                f"the context {what} of {quoted(model.name)} is not the one that was looked at: it"
                " was replaced or changed meanwhile",
                ep_name=ep_of_context_source(context.source),
                source=context.source,
                partition_name=context.partition_name,
            )
    return judged.files


def cached_file_digest(file: MappedContext) -> str:
    """Return the SHA-256 of a file, cached as long as the file system reports no change."""
    return remembered_sha256(file.path, file.stamp, lambda: _sha256(file.data))


def _sha256(data: bytes | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()
