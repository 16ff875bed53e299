"""A language model trained by Trainer, as run_clm.py of transformers does it: no word of an NPU, no patch.

The configuration is tiny and random, the text is numbers. Arguments are those of TrainingArguments, and a few more.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field

import torch
import transformers
from tiny import SIZES
from transformers import HfArgumentParser, Trainer, TrainerCallback, TrainingArguments


@dataclass
class ModelArguments:
    """What is trained."""

    model_type: str = field(default="Llama", metadata={"help": "Llama, Mixtral, ..."})
    lora: bool = field(default=False, metadata={"help": "train adapters of peft only"})
    attn_implementation: str = field(default="", metadata={"help": "the model's default if empty"})
    losses: str = field(default="", metadata={"help": "the file that rank 0 writes losses to, as JSON"})


class Numbers(torch.utils.data.Dataset):
    """Sequences that count up modulo a number, from random starts."""

    def __init__(self, count: int, length: int, vocabulary: int) -> None:
        starts = torch.randint(0, vocabulary, (count, 1), generator=torch.Generator().manual_seed(0))
        self.ids = (starts + torch.arange(length)) % vocabulary

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.ids[index], "labels": self.ids[index]}


class Losses(TrainerCallback):
    """Keeps the losses that Trainer logs."""

    def __init__(self) -> None:
        self.values: list[float] = []

    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "loss" in logs:
            self.values.append(logs["loss"])


def main() -> None:
    """Train, and write the losses."""
    arguments, training = HfArgumentParser((ModelArguments, TrainingArguments)).parse_args_into_dataclasses()
    options = {"num_local_experts": 4} if arguments.model_type == "Mixtral" else {}
    config = getattr(transformers, f"{arguments.model_type}Config")(
        **SIZES,
        max_position_embeddings=32,
        **options,
    )
    transformers.set_seed(training.seed)
    how = {"attn_implementation": arguments.attn_implementation} if arguments.attn_implementation else {}
    model = transformers.AutoModelForCausalLM.from_config(config, **how)
    if arguments.lora:
        from peft import LoraConfig, get_peft_model

        model = get_peft_model(model, LoraConfig(r=4, target_modules=["q_proj", "v_proj"], lora_dropout=0.0))
    losses = Losses()
    trainer = Trainer(model=model, args=training, train_dataset=Numbers(64, 12, 32), callbacks=[losses])
    trainer.train()
    if arguments.losses and int(os.environ.get("RANK", "0")) == 0:
        with open(arguments.losses, "w", encoding="utf-8") as file:
            json.dump({"losses": losses.values, "device": str(training.device), "world": training.world_size}, file)


if __name__ == "__main__":
    main()
