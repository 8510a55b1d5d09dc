"""Each generation of documents to the same values: metadata, component and universal format,
pipelines, samples.
"""
