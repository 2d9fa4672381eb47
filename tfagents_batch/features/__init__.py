"""Features of logged rows: their specification, and the columns they become."""
