"""JSON documents of a package: bounded parsing, positions, counting, schemas, ortpkg's own sidecar
documents.
"""
