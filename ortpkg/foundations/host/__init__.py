"""Resources of the machine for a program that runs on it: memory, cores, processes, folders.

``ortpkg.machine`` finds its devices. ``psutil`` answers; each function loads it when it is called,
since that takes as long as a selection.

Other folders may import: ``cores``, ``descendants``, ``directories``, ``memory``,
``signal_handlers``, ``signal_stack``, ``turns``.
"""
