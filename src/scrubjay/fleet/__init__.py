"""The rules of the fleet: who may do what, and who may type. Pure."""
