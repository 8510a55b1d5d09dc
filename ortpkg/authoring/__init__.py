"""Create, edit, convert, compile and validate packages: work that needs documents and models.

Every change goes through ``package.changes``, which makes it in one step. A command or a façade
calls one module here; what it reports is a value, which others print.

Rooms: ``checks`` and ``rules`` of ``validate``, and ``sharing`` of weights among variants.

Other folders may import: ``compile_variants``, ``compile_wishes``, ``compiling``, ``convert``,
``create``, ``diff``, ``edit``, ``merge``, ``migration``, ``model_diff``,
``new_variant``, ``opening``, ``package_checks``, ``removal``, ``rule_registry``,
``sample_edits``, ``sharing.dedup``, ``slim``, ``variant_files``, ``variant_sizes``.
"""
