"""How fast and how small Scrubjay records, beside the tools it competes with. Never a test: see README.md."""
