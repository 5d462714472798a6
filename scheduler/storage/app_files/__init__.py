"""Files of app versions: packages, archives, app trees, the launcher."""
