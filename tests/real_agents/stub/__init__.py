"""A model that says what a script tells it to, in the four dialects that agents speak."""
