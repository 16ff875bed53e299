"""Helpers of several built-in plugins: options, output, files and manifests."""
