"""The motion: what moves work along, one module per daemon, one loop, two drivers."""
