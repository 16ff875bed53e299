"""The code for other hardware."""
