"""The component models of a package, run one after the other as pipeline.json says.

Limits hold for all steps together.

Other folders may import: ``pipeline_session``, ``run_limits``.
"""
