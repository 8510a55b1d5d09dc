"""Run the component models of a package one after the other, as pipeline.json says.

Limits apply to all steps together.

Other folders may import: ``pipeline_session``, ``run_limits``.
"""
