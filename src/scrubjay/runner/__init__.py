"""One machine: its keepers, their live screens, worktrees, starting pods, and the link to the server."""
