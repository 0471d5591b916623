"""The exact ``(module, name)`` pairs that sbformat knows, and what each is to whom (FORMAT.md 5.4).

Exact pairs only: no prefixes, no dotted names. ``pth``: what a ``.pth`` may call. ``known``: what blobs may call and
build. ``references``: what may stand as a value. ``dangerous``: what is known to run, import, open or connect.
"""
