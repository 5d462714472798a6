"""The subcommands of `scientist`: each module adds its options and runs them."""
