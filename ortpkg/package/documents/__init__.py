"""JSON documents of a package: bounded parsing, positions, counting, schemas."""
