"""Decides whether compiled contexts of a package may be loaded on this machine.

``context_trust`` judges a variant's context files, ``context_verdict`` foretells the judgement for
a selection, before anything is loaded.

Other folders may import: everything here.
"""
