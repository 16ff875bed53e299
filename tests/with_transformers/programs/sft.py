"""TRL's SFTTrainer with a tiny Llama and tokens from memory, as a program for CUDA."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import transformers
from datasets import Dataset
from tiny import SIZES
from tokenizers import Tokenizer, models, pre_tokenizers
from trl import SFTConfig, SFTTrainer


def main(file: str, folder: str) -> None:
    """Take four steps; write the losses and the device."""
    words = {f"w{number}": number for number in range(30)} | {"<pad>": 30, "<end>": 31}
    tokens = Tokenizer(models.WordLevel(words, unk_token="w0"))
    tokens.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tokens, pad_token="<pad>", eos_token="<end>")
    transformers.set_seed(0)
    config = transformers.LlamaConfig(
        **SIZES,
        max_position_embeddings=64,
        pad_token_id=30,
        eos_token_id=31,
        bos_token_id=None,
    )
    model = transformers.LlamaForCausalLM(config)
    texts = [" ".join(f"w{(row + step * (row % 3 + 1)) % 30}" for step in range(4 + row % 5)) for row in range(16)]
    arguments = SFTConfig(
        output_dir=folder,
        per_device_train_batch_size=4,
        max_steps=4,
        logging_steps=1,
        learning_rate=0.01,
        lr_scheduler_type="constant",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        bf16=False,
        gradient_checkpointing=False,
        max_length=16,
        use_cpu=not torch.cuda.is_available(),
    )
    trainer = SFTTrainer(
        model=model, args=arguments, train_dataset=Dataset.from_dict({"text": texts}), processing_class=tokenizer
    )
    trainer.train()
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    result = {"losses": losses, "device": str(next(model.parameters()).device)}
    Path(file).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
