"""A loop as trl's trainers run it, written for CUDA: generate, score, and train against a reference model."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path

import torch
import transformers
from tiny import SIZES


def log_probabilities(model: torch.nn.Module, ids: torch.Tensor, mask: torch.Tensor, new: int) -> torch.Tensor:
    """Return the log probability of each of the last ``new`` tokens."""
    logits = model(input_ids=ids, attention_mask=mask).logits[:, -new - 1 : -1]
    return logits.log_softmax(-1).gather(-1, ids[:, -new:, None]).squeeze(-1)


def main(file: str) -> None:
    """Take four steps; write losses and rewards."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        **SIZES,
        max_position_embeddings=32,
        pad_token_id=0,
        eos_token_id=None,
        bos_token_id=None,
    )
    model = transformers.AutoModelForCausalLM.from_config(config).to(device)
    reference = copy.deepcopy(model).eval().requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    prompts = (torch.arange(20).view(4, 5) % 31 + 1).to(device)
    mask = torch.ones_like(prompts)
    prompts[0, :2], mask[0, :2] = 0, 0  # padded on the left
    losses, rewards, new = [], [], 6
    for _ in range(4):
        with torch.no_grad():
            ids = model.generate(input_ids=prompts, attention_mask=mask, max_new_tokens=new, do_sample=False)
        whole = torch.cat([mask, torch.ones_like(ids[:, -new:])], 1)
        reward = (ids[:, -new:] % 2).float().sum(1)
        advantage = (reward - reward.mean()) / (reward.std() + 1e-4)
        policy = log_probabilities(model, ids, whole, new)
        with torch.no_grad():
            fixed = log_probabilities(reference, ids, whole, new)
        divergence = (fixed - policy).exp() - (fixed - policy) - 1
        loss = (-(policy - policy.detach()).exp() * advantage[:, None] + 0.1 * divergence).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(policy.detach().mean()))
        rewards.append(float(reward.mean()))
    Path(file).write_text(json.dumps({"losses": losses, "rewards": rewards, "device": device}), encoding="utf-8")


main(*sys.argv[1:])
