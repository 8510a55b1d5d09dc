"""Behaviour of onnxruntime's releases: how they open and read a package, and select from it.

``release_lines`` has a row for each line of releases; ``release_1_27`` and ``release_view`` read
packages as they do; ``metadata_rules`` (1.26, 1.27) and ``component_rules`` (1.28 on) judge as they
do, and ``release_selector`` chooses by these rules.

Only this folder may import: ``common_rules``, ``component_rules``, ``metadata_rules``,
``release_1_27``; other folders may import the rest.
"""
