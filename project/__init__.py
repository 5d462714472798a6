"""Settings, URLs and servers; imports all other packages, and none imports it."""
