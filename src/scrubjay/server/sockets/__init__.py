"""What is served over WebSockets: a live pod, the fleet's changes, a recording, a runner."""
