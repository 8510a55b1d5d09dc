"""Which variant runs on which EP device, and why.

Within alone: ``backend_choice``, ``candidate``, ``judging``, ``matches_variant``,
``provider_option_wishes``, ``record_index``, ``selection_warnings``; what else is here is for all.
"""
