"""Changes the host, account or team to which workunits are restricted."""
