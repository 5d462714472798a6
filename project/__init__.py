"""Settings, URLs and servers; imports the other packages, which do not import it."""
