# SPDX-License-Identifier: Apache-2.0
"""Captures a training step into a CUDA graph and replays it. Prints each loss with all bits."""

import torch

torch.manual_seed(1)
torch.use_deterministic_algorithms(True)
torch.backends.cudnn.benchmark = False
model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
image = torch.zeros(64, 512, device="cuda")
label = torch.zeros(64, dtype=torch.long, device="cuda")
batches = [(torch.randn(64, 512), torch.randint(10, (64,))) for _ in range(20)]


def step():
    optimizer.zero_grad(set_to_none=True)
    loss = torch.nn.functional.cross_entropy(model(image), label)
    loss.backward()
    optimizer.step()
    return loss


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        step()
torch.cuda.current_stream().wait_stream(side)

graph = torch.cuda.CUDAGraph()
optimizer.zero_grad(set_to_none=True)
with torch.cuda.graph(graph):
    loss = step()
for images, labels in batches:
    image.copy_(images)
    label.copy_(labels)
    graph.replay()
    print(loss.item().hex())
