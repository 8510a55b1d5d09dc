"""Create, edit, convert, compile and validate packages: work that needs documents and models.

Other folders may import: ``compile_variants``, ``compile_wishes``, ``compiling``, ``convert``,
``create``, ``diff``, ``edit``, ``merge``, ``migration``, ``model_diff``,
``new_variant``, ``opening``, ``package_checks``, ``removal``, ``rule_registry``,
``sample_edits``, ``sharing.dedup``, ``slim``, ``variant_files``, ``variant_sizes``.
"""
