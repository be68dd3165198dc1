"""The agents that can be started by name: how each is started, resumed, told and listened to.

What is known of an agent stands in its manifest, ``manifests/NAME.toml``; docs/agents.md says what may stand there.
"""
