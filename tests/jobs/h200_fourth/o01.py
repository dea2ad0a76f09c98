# SPDX-License-Identifier: Apache-2.0
"""Train a non-autoregressive speech recogniser on synthetic filterbanks.

The encoder maps 512 feature frames to 128 output tokens.  The token error
rate of each batch feeds a running average that is printed at the end.
"""
import time

import torch
import torch.nn.functional as F
from torch import nn

FEATURES = 80
FRAMES = 512
STRIDE = 4
VOCAB = 500
BATCH = 24
LIMIT_S = 13.0


class Recogniser(nn.Module):
    def __init__(self, dim=1024, depth=8, heads=16):
        super().__init__()
        self.front = nn.Linear(FEATURES, dim)
        layer = nn.TransformerEncoderLayer(
            dim, heads, 4 * dim, dropout=0.0, activation="gelu",
            batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(dim * STRIDE, VOCAB)

    def forward(self, feats):
        hidden = self.body(self.front(feats))
        batch, frames, dim = hidden.shape
        return self.head(hidden.reshape(batch, frames // STRIDE, dim * STRIDE))


class Corpus:
    """Utterances kept on the GPU; a batch is a random choice of them."""

    def __init__(self, size, device):
        self.size = size
        self.device = device
        self.tokens = torch.randint(VOCAB, (size, FRAMES // STRIDE), device=device)
        codebook = torch.randn(VOCAB, STRIDE * FEATURES, device=device)
        clean = codebook[self.tokens].reshape(size, FRAMES, FEATURES)
        self.feats = (clean + 0.3 * torch.randn_like(clean)).bfloat16()

    def batch(self, count):
        pick = torch.randint(self.size, (count,), device=self.device)
        return self.feats[pick], self.tokens[pick]


def edit_distance(ref, hyp):
    row = list(range(len(hyp) + 1))
    for i, want in enumerate(ref, 1):
        diagonal, row[0] = row[0], i
        for j, got in enumerate(hyp, 1):
            cost = diagonal if want == got else diagonal + 1
            diagonal = row[j]
            if diagonal + 1 < cost:
                cost = diagonal + 1
            if row[j - 1] + 1 < cost:
                cost = row[j - 1] + 1
            row[j] = cost
    return row[-1]


def token_error_rate(refs, hyps):
    errors = sum(edit_distance(ref, hyp) for ref, hyp in zip(refs, hyps))
    return errors / sum(len(ref) for ref in refs)


def train_step(model, optimizer, feats, tokens):
    logits = model(feats)
    loss = F.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return logits.detach().argmax(-1)


def main():
    torch.manual_seed(3)
    device = torch.device("cuda")
    corpus = Corpus(2048, device)
    model = Recogniser().to(device, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    running, steps = 1.0, 0
    stop = time.monotonic() + LIMIT_S
    while time.monotonic() < stop:
        feats, tokens = corpus.batch(BATCH)
        best = train_step(model, optimizer, feats, tokens)
        rate = token_error_rate(tokens.tolist(), best.tolist())
        running = 0.95 * running + 0.05 * rate
        steps += 1
    print(f"steps {steps}  token error rate {running:.3f}")


if __name__ == "__main__":
    main()
