"""Counterfactual evaluation: the value of a policy from rows of another one."""
