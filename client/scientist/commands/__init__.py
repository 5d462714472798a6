"""The commands of `scientist`: each describes its options and carries itself out."""
