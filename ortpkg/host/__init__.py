"""What the machine is to a program that runs on it: its memory and cores, its processes, the
folders of its user.

What kinds of devices it has is asked in ``ortpkg.devices``. ``psutil`` answers; each function loads
it when it is called, since that takes as long as a selection.
"""
