"""What a pod is doing and for whom it waits, told from what it shows and says. Pure: no I/O, no clock."""
