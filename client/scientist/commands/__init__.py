"""The subcommands of `scientist`: each module adds commands and runs them."""
