# SPDX-License-Identifier: Apache-2.0
"""Uses torch.compile: inductor starts compilers and worker processes. Prints each loss."""

import torch

torch.manual_seed(1)
torch.use_deterministic_algorithms(True)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.LayerNorm(512),
                            torch.nn.Linear(512, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)


@torch.compile
def forward(images, labels):
    return torch.nn.functional.cross_entropy(model(images), labels)


for _ in range(10):
    images, labels = torch.randn(64, 256).cuda(), torch.randint(10, (64,)).cuda()
    optimizer.zero_grad()
    loss = forward(images, labels)
    loss.backward()
    optimizer.step()
    print(loss.item().hex())
