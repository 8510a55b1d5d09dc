"""Read documents of unknown origin within limits: JSON, TOML, schemas; write JSON.

Packages, machine profiles, projects, locks, signatures and answers of registries are read only
here. ``json_limits`` defines what is accepted; a problem is a finding (``finding_collector``) of a
rule (``document_rules``).

Only this folder may import: ``json_depth``; other folders may import the rest.
"""
