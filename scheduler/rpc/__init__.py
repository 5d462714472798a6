"""Face 1: what volunteers' clients talk to."""
