"""Child processes for tests that are not about how a process starts.

A Python that loads numpy, onnx and ours takes a second of processor time, and the suite starts a
thousand of them. Here one that has loaded them waits to be copied (:mod:`tests.warm.server`), and
:class:`tests.warm.popen.WarmPopen`, which stands in for ``subprocess.Popen`` where a test asks for
``warm_processes``, has it copied. A copy is a process like another: with its own id, session,
streams, environment and end, and this process is its parent.
"""
