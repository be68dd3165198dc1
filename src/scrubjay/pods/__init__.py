"""The pods of one machine: find them by name, start them, talk to their keepers. No server needed."""
