"""What needs a package's documents and its models: create, edit, convert, compile, validate."""
