"""Named queues of work: settings, slots and schedules.

`named_queues` creates, changes and deletes queues and applies schedules; `slots` counts, locks and
frees the permissions for results in progress; `rules` decides which hosts a queue serves.
"""
