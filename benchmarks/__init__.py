"""Benchmarks of sbformat and of other readers, over the same files: ``python -m benchmarks`` (README.md)."""
