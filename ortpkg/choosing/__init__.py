"""How a selection of a package comes about on a machine: what is asked, of whom, in which order.

``package_selection`` has the steps; ``model_operators`` reads what models need, ``measured_costs``
what was measured, for sessions that partition by cost.
"""
