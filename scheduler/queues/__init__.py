"""Creates, changes and deletes named queues of work."""
