"""Arrays that a user gives or gets: .npy, .npz, JSON and text files, feeds, generated inputs.

Other folders may import every module.
"""
