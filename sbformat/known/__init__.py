"""What a pickle may name: one row for each class or function, with all that the package knows about it."""
