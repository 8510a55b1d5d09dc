"""The choice of a variant: what suits a machine, what was measured there, and what may be loaded.

``matching`` decides which variants suit a machine and says why, ``releases`` knows the rules of
each release of ONNX Runtime, ``measuring`` keeps records of speed and failures, ``contexts`` judges
compiled contexts, and ``choosing`` puts their answers together for a package.

Rooms: ``choosing``, ``contexts``, ``matching``, ``measuring``, ``releases``.
"""
