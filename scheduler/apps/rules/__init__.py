"""Pure functions for plug-ins, packages, plan class files and the rights on apps."""
