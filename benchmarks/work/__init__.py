"""The work to be done, as frozen dataclasses, and the environments for it.

All contenders import these modules, so they import no library that is compared.
"""
