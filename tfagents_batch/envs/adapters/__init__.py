"""Adapters of other packages' single environments to ``gymnasium.Env``."""
