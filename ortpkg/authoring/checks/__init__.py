"""What ``validate`` looks at, subject by subject; the rules themselves stand in
``authoring.rules``.
"""
