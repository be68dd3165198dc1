"""The server and its runner: how fast keys come back, how many may look, what a hundred pods cost."""
