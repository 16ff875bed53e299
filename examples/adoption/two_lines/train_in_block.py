"""Patched while the block lasts, in this process and those that are forked in it; restored at its end."""

import training

import patchcore

if __name__ == "__main__":
    with patchcore.apply():
        training.main()
    print("np.float is there:", hasattr(training.np, "float"))
