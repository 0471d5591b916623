"""An SB3 archive as a value: its entries, what they hold, and edits of it (FORMAT.md 1, 4)."""
