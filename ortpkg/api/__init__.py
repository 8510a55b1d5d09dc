"""The façades that users hold: ``ModelPackage`` and ``ModelVariant``, and the functions that go
with them.
"""
