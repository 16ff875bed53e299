"""Patched while the function runs, in this process and those that are forked in it; restored at its end."""

import training

import patchcore


@patchcore.Patcher.discover()
def main():
    """Train, patched."""
    training.main()


if __name__ == "__main__":
    main()
    print("np.float is there:", hasattr(training.np, "float"))
