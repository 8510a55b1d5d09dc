"""Check that a context is the one that an EPContext node was made with, before an EP sees it.

A node names a file and a partition in it; another model's file may have taken that name. So the
node's notes, inputs and outputs are compared with the content of the file.
"""

from __future__ import annotations

import json

from ortpkg.foundations.errors import EpContextError, quoted
from ortpkg.graph.graph import Node
from ortpkg.runtime.ep_context.context_node import EpContextAttributes
from ortpkg.runtime.ep_context.ep_context_descriptor import (
    SOURCE_FIELDS,
    ContextDescriptor,
    descriptor_from_json,
    find_mismatch,
)
from ortpkg.runtime.ep_context.ep_context_file import ContextEntry


def check_context_entry(
    entry: ContextEntry, node: Node, attributes: EpContextAttributes, *, ep_name: str
) -> None:
    """Raise EpContextError, naming the field, if ``entry`` is not what ``node`` was made with.

    Notes are free text: without a descriptor of ortpkg in them, only the arity is compared.
    """
    where = f"the context of partition {quoted(attributes.partition_name or node.name)}"
    noted = _noted(attributes.notes, where, ep_name)
    mismatch = (
        None if noted is None else find_mismatch(entry.descriptor, noted, names=SOURCE_FIELDS)
    )
    problem = ""
    if mismatch is not None:
        problem = (
            f"{where} is of another model: its {mismatch.field} is {quoted(mismatch.recorded)}, the"
            f" notes of the node say {quoted(mismatch.needed)}; another binary has taken the place"
            " of its own"
        )
    elif entry.arity is not None:
        for what, has, takes in zip(
            ("inputs", "outputs"), (node.inputs, node.outputs), entry.arity, strict=True
        ):
            if len(has) != takes:
                problem = (
                    f"{where} has {takes} {what}, its EPContext node {quoted(node.name)} has"
                    f" {len(has)}"
                )
                break
    if problem:
        raise EpContextError(
            problem,
            ep_name=ep_name,
            source=attributes.source,
            partition_name=attributes.partition_name,
        )


def has_own_notes(attributes: EpContextAttributes) -> bool:
    """Return True if the node says that ortpkg made its context."""
    try:
        return _noted(attributes.notes, "a context", "") is not None
    except EpContextError:
        return True


def _noted(notes: str, where: str, ep_name: str) -> ContextDescriptor | None:
    try:
        document = json.loads(notes)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or not all(
        isinstance(document.get(name), str) for name in SOURCE_FIELDS
    ):
        return None
    try:
        return descriptor_from_json(document)
    except ValueError as error:
        raise EpContextError(
            f"the notes of the node of {where}: {error}", ep_name=ep_name
        ) from error
