"""Changing a package in one step, and putting one right that a killed process left half changed."""
