"""Changing a package in one step, and mending one that a killed process left half changed.

Within alone: ``garbage``; what else is here is for all.
"""
