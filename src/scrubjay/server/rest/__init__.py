"""The REST API, one module for each kind of thing."""
