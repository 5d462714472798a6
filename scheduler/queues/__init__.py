"""Named queues of work: creation, change and removal."""
