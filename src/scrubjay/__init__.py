"""Flight recorder and control tower for fleets of terminal AI agents."""

__version__ = "0.1.0"
