"""HTML report of a package on one page: its parts, selection, graphs and findings.

The façade passes a ``report_subject``; ``sections`` turns it into frozen values, which ``page``
shows. Nothing here prints, writes files, or selects a variant.

Other folders may import: ``page``, ``report_subject``, ``report_wishes``.
"""
