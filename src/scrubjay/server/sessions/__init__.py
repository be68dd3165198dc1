"""Sessions: who holds each, what is remembered of it, and how it is gone on with."""
