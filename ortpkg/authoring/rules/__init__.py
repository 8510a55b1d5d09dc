"""Rules of ``validate`` about models, files, the use of variants, and readers.

``ortpkg.package.rules`` has the rules below ORT100 and the form of a rule. There is a module for
each subject here; every rule that it defines is in the table. Ids never change meaning. The checks
are in ``package_checks.py``.
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
from ortpkg.foundations.documents.document_rules import Rule, rules_among

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
"""All rules of this folder, in the order of their ids."""
