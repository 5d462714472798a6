"""BOINC's protocol for volunteers' clients: scheduler RPC, files, web RPCs."""
