"""Mutants of files, for compare.py and the fuzz tests. Standard library only."""
