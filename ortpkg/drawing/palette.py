"""The colours of pictures, and the letters."""

from __future__ import annotations

import colorsys

INK = "#1c2733"
FAINT = "#5b6b7b"
GRID = "#dde3e9"
BLUE = "#2f6fb4"
RED = "#b3261e"
PALE_RED = "#fbe9e7"

STYLE = f"""
  text {{ font: 13px system-ui, sans-serif; fill: {INK}; }}
  .title {{ font-size: 17px; font-weight: 600; }}
  .small {{ font-size: 11px; fill: {FAINT}; }}
  .axis {{ stroke: {INK}; }} .grid {{ stroke: {GRID}; }}
  .flag {{ fill: {RED}; font-weight: 600; }}
"""


def hue(number: int) -> str:
    """Light colours in a row: neighbours lie far from each other (steps of the golden angle)."""
    red, green, blue = colorsys.hls_to_rgb((number * 0.381966) % 1.0, 0.78, 0.6)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"
