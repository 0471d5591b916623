"""What sbformat costs, beside what others do with the same files: ``python -m benchmarks`` (README.md)."""
