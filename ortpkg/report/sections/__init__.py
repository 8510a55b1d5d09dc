"""Sections of a report: each module makes one, a frozen value that its template shows."""
