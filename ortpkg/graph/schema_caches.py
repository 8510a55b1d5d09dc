"""Forgets what is remembered of operator definitions, after one came or went."""

from __future__ import annotations

from ortpkg.graph.operator_schemas import find_schema, forget_output_formals
from ortpkg.graph.schema_checks import forget_formals
from ortpkg.graph.type_checks import forget_input_types


def forget_cached_schemas() -> None:
    """What is asked of definitions from now on is asked anew."""
    find_schema.cache_clear()
    forget_formals()
    forget_output_formals()
    forget_input_types()
