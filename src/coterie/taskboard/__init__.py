"""taskboard."""
