"""HTTP server of an export: requests, batches, the log, and changes of the model."""
