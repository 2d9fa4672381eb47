"""Native hub: worker processes driven from inside compiled programs."""
