"""Layouts: how tensors lie in memory inside of a partition, other than the model says."""
