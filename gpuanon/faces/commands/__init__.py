"""The commands: each a function whose parameters are its arguments and options."""
