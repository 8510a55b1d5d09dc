"""Model packages on disk: read them into values, and write documents back. No ONNX, no numpy.

``reader`` opens a package and returns a frozen ``PackageInfo`` (``package_info``); every problem is
a finding of a rule (``rules``). The folders, from the ground up: ``paths`` (which paths a package
may name), ``integrity`` (digests), ``formats`` (each generation of documents), ``changes``
(changing and repairing a package), ``archive`` (a package packed into one file). ``references``
are texts that name a package; ``trust`` decides whose signatures count, and which options of a
package may take effect.

Only this folder may import: ``reading_rules``, ``schema_version``, ``formats.sparse_variants``,
``formats.universal_format``, ``integrity.absent_files``; other folders may import the rest, but for
what an inner folder keeps to itself.
"""
