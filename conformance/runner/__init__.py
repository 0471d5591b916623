"""The parts of run.py and compare.py. Standard library only."""
