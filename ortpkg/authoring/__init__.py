"""Create, edit, convert, compile and validate packages: work that needs documents and models.

Other folders may import: ``compile_variants``, ``compile_wishes``, ``compiling``, ``convert``,
``create``, ``dedup``, ``diff``, ``edit``, ``merge``, ``migration``, ``model_diff``,
``new_variant``, ``opening``, ``package_checks``, ``removal``, ``rule_registry``,
``sample_edits``, ``slim``, ``variant_files``, ``variant_sizes``.
"""
