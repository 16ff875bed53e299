"""The features that ship with the core, each a plugin of it that uses only hooks which a third party can use."""
