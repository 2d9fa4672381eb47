"""Rows of any form as Parquet files, and those as one view; see ``offline.reader``."""
