"""Many files: what is known of each, its row in a table, and the columns of that table.

:func:`~sbformat.catalogue.collect.collect_file` reads a file, :func:`~sbformat.catalogue.rows.collect_row` keeps of it
what its row shows, and :func:`~sbformat.catalogue.columns.make_table` divides the values of all rows into columns. The
page of ``report`` and the table of ``inspect`` are made of the same rows.
"""
