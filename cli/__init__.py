"""The `turnout` command: one thin module per command group."""
