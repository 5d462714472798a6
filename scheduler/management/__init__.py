"""What staff says to the server from a shell: a face of its own."""
