"""Formats of exports: each module writes a function to a path, and runs what it wrote.

``write(function, specs, folder)`` returns the name of the file or folder in ``folder``.
``load(path)`` returns a function of NumPy arrays by name that returns the outputs.
"""
