"""The endpoints of task lists; the folder above has the maximum number of modules."""
