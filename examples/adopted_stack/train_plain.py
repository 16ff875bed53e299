"""The same program without its patch code."""

from tinymegatron.training import pretrain

if __name__ == "__main__":
    pretrain()
