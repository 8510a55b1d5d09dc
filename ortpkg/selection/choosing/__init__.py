"""Make a selection from a package on a machine: the steps and their order.

``package_selection`` has the steps; ``measured_costs`` passes measurements to sessions that
partition by cost.

Only this folder may import: ``model_operators``, which reads what models need; other folders may
import the rest.
"""
