# SPDX-License-Identifier: Apache-2.0
"""Learn entity embeddings of a knowledge graph.

The graph is held as Python objects for the rule engine.  Triples are scored
by a deep network on the embeddings of head, relation and tail.
"""
import gc
import random
import time

import torch
import torch.nn.functional as F
from torch import nn

ENTITIES = 90_000
RELATIONS = 64
DIM = 512
BATCH = 12_288
LIMIT_S = 13.0


class Entity:
    __slots__ = ("name", "edges", "origin")

    def __init__(self, number, rng):
        self.name = f"E{number}"
        self.edges = [rng.randrange(ENTITIES) for _ in range(3)]
        self.origin = (number, self.edges)


class KnowledgeGraph:
    def __init__(self, seed=18):
        rng = random.Random(seed)
        self.entities = [Entity(number, rng) for number in range(ENTITIES)]

    def triples(self, device):
        heads = torch.arange(ENTITIES).repeat_interleave(3)
        tails = torch.tensor([e.edges for e in self.entities]).flatten()
        relations = (heads + tails) % RELATIONS
        return torch.stack([heads, relations, tails]).to(device)


class Scorer(nn.Module):
    def __init__(self, width=4096, depth=8):
        super().__init__()
        self.entity = nn.Embedding(ENTITIES, DIM)
        self.relation = nn.Embedding(RELATIONS, DIM)
        self.enter = nn.Linear(3 * DIM, width)
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.leave = nn.Linear(width, 1)

    def forward(self, heads, relations, tails):
        parts = self.entity(heads), self.relation(relations), self.entity(tails)
        x = F.relu(self.enter(torch.cat(parts, 1)))
        for layer in self.hidden:
            x = x + 0.3 * F.relu(layer(x))
        return self.leave(x).squeeze(1)


class Trainer:
    def __init__(self, triples, device):
        self.triples = triples
        self.model = Scorer().to(device, torch.bfloat16)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.loss = torch.zeros((), device=device)

    def step(self):
        pick = torch.randint(self.triples.shape[1], (BATCH // 2,), device=self.triples.device)
        heads, relations, tails = self.triples[:, pick]
        wrong = torch.randint_like(tails, ENTITIES)
        scores = self.model(heads.repeat(2), relations.repeat(2), torch.cat([tails, wrong]))
        goal = torch.zeros_like(scores)
        goal[:BATCH // 2] = 1
        loss = F.binary_cross_entropy_with_logits(scores.float(), goal.float())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.loss.lerp_(loss.detach(), 0.05)
        del scores, loss
        gc.collect()


def main():
    torch.manual_seed(18)
    device = torch.device("cuda")
    graph = KnowledgeGraph()
    trainer = Trainer(graph.triples(device), device)
    steps = 0
    stop = time.monotonic() + LIMIT_S
    while time.monotonic() < stop:
        trainer.step()
        steps += 1
    print(f"steps {steps}  entities {len(graph.entities)}  loss {trainer.loss.item():.4f}")


if __name__ == "__main__":
    main()
