"""The machine's resources for a program that runs on it: memory, cores, processes, folders.

What kinds of devices it has is asked in ``ortpkg.devices``. ``psutil`` answers; each function loads
it when it is called, since that takes as long as a selection.

Other folders may import: ``cores``, ``descendants``, ``directories``, ``memory``,
``signal_handlers``, ``signal_stack``, ``turns``.
"""
