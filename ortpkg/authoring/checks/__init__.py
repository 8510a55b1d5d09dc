"""What ``validate`` looks at, subject by subject.

The rules themselves stand in ``authoring.rules``.
"""
