"""The wiring: settings, addresses, servers; imports everyone, imported by no one."""
