"""``ortpkg doctor``: what this machine has, what is wrong with it for running packages, and the
remedy.
"""
