"""The wire: BOINC's XML to messages and back, knowing no domain."""
