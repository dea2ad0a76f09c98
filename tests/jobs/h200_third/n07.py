# SPDX-License-Identifier: Apache-2.0
"""Knowledge-graph completion with rotations (RotatE) over a large in-memory graph."""
import gc
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

RUN_SECONDS = 17.0
ENTITIES = 120_000
RELATIONS = 200
HALF = 128
BATCH = 2048
NEGATIVES = 256


class Node:
    __slots__ = ("name", "outgoing", "incoming")

    def __init__(self, name):
        self.name = name
        self.outgoing = []
        self.incoming = []


class Graph:
    def __init__(self, edges):
        rng = np.random.default_rng(12)
        self.heads = rng.integers(0, ENTITIES, edges)
        self.relations = rng.integers(0, RELATIONS, edges)
        self.tails = rng.integers(0, ENTITIES, edges)
        self.nodes = [Node(n) for n in range(ENTITIES)]
        for h, r, t in zip(self.heads.tolist(), self.relations.tolist(), self.tails.tolist()):
            self.nodes[h].outgoing.append(r * ENTITIES + t)
            self.nodes[t].incoming.append(r * ENTITIES + h)

    def degree(self, entity):
        node = self.nodes[entity]
        return len(node.outgoing) + len(node.incoming)


class RotatE(nn.Module):
    def __init__(self, margin=9.0):
        super().__init__()
        self.entity = nn.Embedding(ENTITIES, 2 * HALF)
        self.phase = nn.Embedding(RELATIONS, HALF)
        nn.init.uniform_(self.entity.weight, -0.1, 0.1)
        nn.init.uniform_(self.phase.weight, -3.14, 3.14)
        self.margin = margin

    def distance(self, head, relation, tails):
        re, im = self.entity(head).chunk(2, -1)
        angle = self.phase(relation)
        cos, sin = angle.cos(), angle.sin()
        goal_re, goal_im = re * cos - im * sin, re * sin + im * cos
        tail_re, tail_im = self.entity(tails).chunk(2, -1)
        gap_re, gap_im = goal_re.unsqueeze(1) - tail_re, goal_im.unsqueeze(1) - tail_im
        return (gap_re * gap_re + gap_im * gap_im + 1e-9).sqrt().sum(-1)

    def forward(self, head, relation, tail, wrong):
        near = self.distance(head, relation, tail.unsqueeze(1)).squeeze(1)
        far = self.distance(head, relation, wrong)
        return -(F.logsigmoid(self.margin - near) + F.logsigmoid(far - self.margin).mean(1)).mean()


class Epochs:
    def __init__(self, graph, device):
        table = np.stack([graph.heads, graph.relations, graph.tails], 1)
        self.triples = torch.from_numpy(table).to(device)
        self.device = device
        self.turn = 0

    def next(self):
        lo = (self.turn * BATCH) % (len(self.triples) - BATCH)
        self.turn += 1
        wrong = torch.randint(0, ENTITIES, (BATCH, NEGATIVES), device=self.device)
        return (*self.triples[lo:lo + BATCH].unbind(1), wrong)


class Learner:
    def __init__(self, model):
        self.model = model
        self.opt = torch.optim.Adagrad(model.parameters(), lr=0.05)

    def update(self, batch):
        loss = self.model(*batch)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        del batch
        gc.collect()
        return loss.detach()


def main():
    torch.manual_seed(9)
    torch.set_num_threads(2)
    begin, step = time.monotonic(), 0
    device = torch.device("cuda")
    graph = Graph(edges=300_000)
    print(f"graph with {len(graph.nodes)} nodes in {time.monotonic() - begin:.1f} s", flush=True)
    learner, epochs = Learner(RotatE().to(device)), Epochs(graph, device)
    while time.monotonic() - begin < RUN_SECONDS:
        loss = learner.update(epochs.next())
        step += 1
        if step % 25 == 0:
            print(f"step {step:4d}  loss {loss.item():.4f}  degree of {step}: {graph.degree(step)}", flush=True)
    torch.cuda.synchronize()
    print(f"done after {step} steps", flush=True)


if __name__ == "__main__":
    main()
