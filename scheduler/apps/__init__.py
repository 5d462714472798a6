"""Science apps: versions, publishing, plan classes, plug-ins, key rotation."""
