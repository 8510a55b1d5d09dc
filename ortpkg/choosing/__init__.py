"""How a selection of a package comes about on a machine: what is asked, of whom, in which order.

``package_selection`` has the steps; ``measured_costs`` tells what was measured to sessions that
partition by cost.

Only this folder may import: ``model_operators``, which reads what models need; other folders may
import the rest.
"""
