"""Documents of strangers, under limits: JSON and TOML to values, values to JSON, and schemas.

Packages, profiles of machines, projects, locks, signatures and what registries answer are read
here alone. ``json_limits`` says what is accepted; what is wrong is a finding (``findings``) of a
rule (``document_rules``).

Only this folder may import: ``json_depth``; other folders may import the rest.
"""
