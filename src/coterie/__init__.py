"""Coterie: a runtime for a team of coding agents."""

__version__ = "0.1.0"
