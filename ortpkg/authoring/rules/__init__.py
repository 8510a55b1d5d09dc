"""The rules of ``validate`` that look beyond documents: at models, files, variants' use, readers.

``ortpkg.package.rules`` has those below ORT100 and the form of a rule. Here is a module for each
subject; what it defines is in the table of all. Ids never change meaning. What checks them is in
``package_checks.py``.
"""

from __future__ import annotations

from ortpkg.authoring.rules import (
    file_rules,
    genai_rules,
    model_rules,
    pipeline_rules,
    release_rules,
    sample_rules,
    selection_rules,
)
from ortpkg.documents.document_rules import Rule, rules_among

AUTHORING_RULES: tuple[Rule, ...] = tuple(
    rule
    for subject in (
        model_rules,
        selection_rules,
        file_rules,
        pipeline_rules,
        sample_rules,
        genai_rules,
        release_rules,
    )
    for rule in rules_among(vars(subject))
)
"""All of them, in the order of their ids."""
