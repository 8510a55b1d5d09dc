"""Select the variant to run and its EP device, and explain the choice.

Only this folder may import: ``backend_choice``, ``candidate``, ``judging``, ``matches_variant``,
``provider_option_wishes``, ``record_index``, ``selection_warnings``; other folders may import the
rest.
"""
