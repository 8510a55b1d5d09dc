"""Read each generation of documents into the same values; read pipelines and samples.

Only this folder may import: ``component_variant``, ``reference_reader``, ``shared_assets``; other
folders may import the rest.
"""
