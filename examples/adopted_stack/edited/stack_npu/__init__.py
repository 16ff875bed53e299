"""The plugin that ``patchcore adopt`` wrote, with its conditions added by hand."""
