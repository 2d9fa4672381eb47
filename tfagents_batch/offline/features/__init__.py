"""Types of features, found from logged rows, and their normalization."""
