"""Schedules of convolutions and pools, which slide windows over images."""
