"""Personal models shrunk towards a joint one, by as much as everybody's held-out rows advise."""
