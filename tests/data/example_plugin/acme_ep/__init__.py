"""An example of an execution provider for ortpkg: it runs Relu and leaves the rest to others."""
