"""Arrays in files: users' .npy, .npz, JSON and text files, and parts of mapped files.

Other folders may import: ``array_files``, ``mapped_parts``, ``npy_header``.
"""
