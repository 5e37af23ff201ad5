"""Settings, logging and the root of all errors."""
