"""Many files: what is known of each, its row in a table, and the file that has the rows.

``collect`` reads a file, ``rows`` makes the row of what was read, and divides the values of many rows into the columns
of a page or of the text of ``inspect``. ``catalog`` makes rows of many sources, ``update`` writes them to a file,
which ``table_files`` reads, writes and searches.
"""
