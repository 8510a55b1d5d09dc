"""An example of an execution provider for ortpkg: it runs Relu, and leaves everything else to
others.
"""
