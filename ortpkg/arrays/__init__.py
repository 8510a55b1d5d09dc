"""Arrays of users: .npy, .npz, JSON and text files, feeds, and generated inputs.

Other folders may import: ``array_files``, ``given_feeds``, ``npy_header``, ``synthetic_inputs``.
"""
