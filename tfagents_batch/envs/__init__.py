"""Batches of environments; kept empty because worker processes import parts of it."""
