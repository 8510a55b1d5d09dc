"""Each generation of documents to the same values; pipelines and samples.

Within alone: ``component_variant``, ``reference_reader``, ``shared_assets``; what else is here is
for all.
"""
