"""Tables of the exact ``(module, name)`` pairs that sbformat knows (FORMAT.md 5.4): no prefixes, no dotted names.

A name that is in no table is unknown: it stays an inert node, and ``scan`` reports it. Where to add what:

=======================  ==============================================================================================
A new ...                goes in ...
=======================  ==============================================================================================
space of gymnasium       ``spaces``: its class and module
class, as a plain value  ``references``: policies, layers, activations, optimizers, dtypes, types of Python
constructor of torch     ``torch``: what a ``.pth`` may call, with its role; storages and dtypes
other constructor        ``constructors``: what the pickles of ``data`` may call or create, with its role; noise and
                         buffers with their attributes
class that was renamed   ``renamed``: its old and its new name
dangerous name           ``dangerous``: it runs, imports, opens, connects or unpickles
release of SB3           ``releases``: a target to write for, and the classes that it has or lacks
attribute of an agent    ``sb3_attributes``: keys of ``data`` that SB3 uses
name in Python's library ``stdlib``: what functions and classes pickled by value refer to
schedule function        ``published``: generated from the libraries' sources by ``schema/generate_published.py``
=======================  ==============================================================================================

A role is the key of the function that decodes a constructor's calls: :mod:`sbformat.values.registry`, or
:mod:`sbformat.pth.constructors` for torch's.
"""
