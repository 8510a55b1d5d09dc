"""How fast ``ortpkg serve`` answers, beside KServe's server with a model class written by hand."""
