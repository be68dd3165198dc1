"""What runners, server and viewers say to each other, and the machines that decide it; no socket here."""
