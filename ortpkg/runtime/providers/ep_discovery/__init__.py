"""Finds libraries of plug-in EPs: in wheels, where the user says, in Windows' catalog.

``ep_libraries`` lists what all of them bring. Nothing of a library is loaded in this process before
a session uses it.
"""
