"""Disk to values, and documents back to disk: what a model package is, without ONNX and numpy.

``reader`` opens a package and yields a frozen ``PackageInfo`` (``package_info``); what is wrong is
a finding of a rule (``rules``). The folders, from the ground up: ``paths`` (what a path of a
stranger may name), ``integrity`` (digests), ``formats`` (each generation of documents), ``changes``
(how a package is changed and repaired), ``archive`` (one packed file).

Only this folder may import: ``reading_rules``, ``schema_version``, ``formats.sparse_variants``,
``formats.universal_format``, ``integrity.absent_files``; other folders may import the rest, but for
what an inner folder keeps to itself.
"""
