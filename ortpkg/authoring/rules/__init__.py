"""The rules of ``validate`` that need more than the documents: models, files, what a variant is
for, who reads it.

``ortpkg.package.rules`` has those below ORT100 and the form of a rule. Here is a module for each
subject, and the table of all. Ids never change meaning. What checks them is in
``package_checks.py``.
"""

from __future__ import annotations

from ortpkg.authoring.rules.file_rules import FILE_RULES
from ortpkg.authoring.rules.genai_rules import GENAI_RULES
from ortpkg.authoring.rules.model_rules import MODEL_RULES
from ortpkg.authoring.rules.pipeline_rules import PIPELINE_RULES
from ortpkg.authoring.rules.release_rules import RELEASE_RULES
from ortpkg.authoring.rules.sample_rules import SAMPLE_RULES
from ortpkg.authoring.rules.selection_rules import SELECTION_RULES
from ortpkg.package.rules import Rule

AUTHORING_RULES: tuple[Rule, ...] = (
    *MODEL_RULES,
    *SELECTION_RULES,
    *FILE_RULES,
    *PIPELINE_RULES,
    *SAMPLE_RULES,
    *GENAI_RULES,
    *RELEASE_RULES,
)
"""All of them, in the order of their ids."""
