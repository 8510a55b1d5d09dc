"""Layout of buffers in a block of memory, in integers only.

The engine plans the values of a graph with it, and compiled programs their arena.

Other folders may import: ``buffer_layout``.
"""
