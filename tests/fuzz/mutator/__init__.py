"""Changes that keep a file a file: zips with right CRCs, pickles with whole opcodes, JSON with pickles in base64.

Each change is drawn from one ``random.Random``, so a seed gives one mutant. Nothing here needs atheris.
"""
