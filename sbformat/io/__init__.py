"""Bytes: where they are read from, and how files are written: sources, a bounded cursor, atomic files."""
