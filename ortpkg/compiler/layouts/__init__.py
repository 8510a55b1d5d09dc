"""Layouts: how tensors are laid out in memory inside a partition, unlike in the model."""
