"""What people, runners and agents talk to: the guard, REST, live view, replay."""
