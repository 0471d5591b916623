"""The strict zip, read and written (FORMAT.md 2): records, names, layout, inflating, reader and writer."""
