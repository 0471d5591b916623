"""Policies as C99 source: one function without allocation, and its header."""
