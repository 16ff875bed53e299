"""A stand-in for MindSpeed: features that patch tinymegatron through a manager, chosen by its arguments."""
