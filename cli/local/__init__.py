"""The one-machine platform: embedded servers and the processes beside them."""
