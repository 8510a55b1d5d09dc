"""Parts that every other wing may use and that know nothing of models.

They are the errors, names and versions, quantities with units, values of the environment, the
files of users and packages on disk, readable documents, drawing, arrays in files, and child
processes with limits. Nothing here imports another wing.

Rooms: ``arrays``, ``documents``, ``drawing``, ``errors``, ``host``, ``isolation``, ``storage``.
"""
