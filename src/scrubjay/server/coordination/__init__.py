"""Bindings, channels, waits, handoffs and the topology, whoever asks: people over the API, agents over MCP."""
