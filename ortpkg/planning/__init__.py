"""Where buffers lie in a block of memory: integers alone, for whoever plans a run.

The engine plans the values of a graph with it, compiled programs their arena.

Other folders may import: ``buffer_layout``.
"""
