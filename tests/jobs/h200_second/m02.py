# SPDX-License-Identifier: Apache-2.0
# Node classification, full batch, mean aggregation over an edge list.
import time
import torch
from torch import nn

NODES, EDGES, DIM, LABELS = 200_000, 2_000_000, 256, 47
SECONDS = 17
REPORT = 200


class MeanConv(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.own = nn.Linear(d_in, d_out)
        self.nbr = nn.Linear(d_in, d_out, bias=False)

    def forward(self, h, src, dst, inv_deg):
        gathered = h.index_select(0, src)
        pooled = torch.zeros_like(h).index_add(0, dst, gathered)
        return self.own(h) + self.nbr(pooled * inv_deg)


class Sage(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([MeanConv(DIM, DIM) for _ in range(3)])
        self.norms = nn.ModuleList([nn.LayerNorm(DIM) for _ in range(3)])
        self.out = nn.Linear(DIM, LABELS)

    def forward(self, h, src, dst, inv_deg):
        for layer, norm in zip(self.layers, self.norms):
            h = h + torch.relu(norm(layer(h, src, dst, inv_deg)))
        return self.out(h)


def build_graph(dev):
    gen = torch.Generator(device=dev)
    gen.manual_seed(11)
    src = torch.randint(NODES, (EDGES,), device=dev, generator=gen)
    dst = torch.randint(NODES, (EDGES,), device=dev, generator=gen)
    deg = torch.zeros(NODES, device=dev).index_add(0, dst, torch.ones(EDGES, device=dev))
    feats = torch.randn(NODES, DIM, device=dev, generator=gen)
    labels = torch.randint(LABELS, (NODES,), device=dev, generator=gen)
    return src, dst, deg.clamp(min=1).reciprocal().unsqueeze(1), feats, labels


def main():
    dev = "cuda"
    torch.backends.cuda.matmul.allow_tf32 = True
    src, dst, inv_deg, feats, labels = build_graph(dev)
    model = Sage().to(dev)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    ce = nn.CrossEntropyLoss()

    t0 = time.time()
    epoch = 0
    while time.time() - t0 < SECONDS:
        opt.zero_grad(set_to_none=True)
        loss = ce(model(feats, src, dst, inv_deg), labels)
        loss.backward()
        opt.step()
        epoch += 1
        if epoch % REPORT == 0:
            print(f"epoch {epoch} loss {loss.item():.4f}")
    torch.cuda.synchronize()
    print("epochs", epoch, "loss", round(loss.item(), 4))


if __name__ == "__main__":
    main()
