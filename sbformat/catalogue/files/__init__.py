"""The file of a catalogue: Parquet, CSV, JSON Lines or SQLite, written from rows in their order, and read back.

Each format is a module with ``write(path, rows, columns)`` and ``read(path)``, of which :mod:`.formats` chooses by the
suffix. Rows that are read and written again are the same rows, and for the same columns the same bytes:

* A column has numbers, truth values or texts, or, if files differ, several of them. Only Parquet needs one type for a
  column: it has the numbers under the name, and the texts in a second column ``NAME_text``.
* CSV writes numbers, ``true``, ``false``, ``NaN`` and ``Infinity`` as they are, and an apostrophe before a text that
  looks like one of them, or like a formula.
* JSON Lines has the numbers that JSON lacks as the texts ``NaN``, ``Infinity`` and ``-Infinity``; a hyper-parameter
  without a value is left out.
* SQLite stores NaN as a text, because it would make no value of it.
"""
