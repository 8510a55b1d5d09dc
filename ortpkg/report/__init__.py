"""One page of all that is known of a package: its parts, its choice, its graphs, its findings.

``report_subject`` is what the façade hands in, ``sections`` makes frozen values of it, ``page``
shows them. Nothing here prints, writes a file, or chooses a variant.

Other folders may import: ``page``, ``report_subject``, ``report_wishes``.
"""
