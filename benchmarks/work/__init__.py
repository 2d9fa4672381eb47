"""Work of the contenders, as frozen dataclasses, and the environments for it.

All contenders import these modules, so they import none of the compared libraries.
"""
