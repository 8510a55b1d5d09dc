"""Arrays that a user gives or gets: .npy, .npz, JSON and text files, feeds, generated inputs.

Other folders may import: ``array_files``, ``given_feeds``, ``npy_header``, ``synthetic_inputs``.
"""
