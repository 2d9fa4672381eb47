"""Single environments of other packages as ``gymnasium.Env``s."""
