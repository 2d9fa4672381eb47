"""Work of the contenders, and environments; imports none of the compared libraries."""
