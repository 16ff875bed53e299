"""Write plugins: from nothing, or from a file that a plugin reads, by the hook ``read_plugin_source``."""
