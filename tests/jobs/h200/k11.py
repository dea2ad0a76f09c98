# SPDX-License-Identifier: Apache-2.0
"""ResNet-50 classification, keeps an eye on device memory."""
import argparse
import os
import time

import torch
import torch.nn.functional as F
import torchvision

DEVICE = os.environ.get("DEVICE", "cuda")
TINY = DEVICE == "cpu"


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, default=4 if TINY else 96)
    p.add_argument("--size", type=int, default=64 if TINY else 224)
    p.add_argument("--lr", type=float, default=0.05)
    p.add_argument("--seconds", type=float, default=float(os.environ.get("RUN_SECONDS", "17")))
    return p.parse_args()


def tidy(opt):
    """Leave the device clean between steps: the node is shared."""
    opt.zero_grad(set_to_none=True)
    if DEVICE == "cuda":
        torch.cuda.empty_cache()


def run_step(model, opt, images, labels):
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        loss = F.cross_entropy(model(images), labels)
    loss.backward()
    opt.step()
    return loss.detach()


def main():
    args = parse()
    torch.backends.cudnn.benchmark = False
    model = torchvision.models.resnet50(num_classes=1000).to(DEVICE, memory_format=torch.channels_last)
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    pool = [torch.randn(args.batch, 3, args.size, args.size, device=DEVICE)
            .contiguous(memory_format=torch.channels_last) for _ in range(4)]
    truth = [torch.randint(1000, (args.batch,), device=DEVICE) for _ in pool]
    step, end = 0, None
    while end is None or time.monotonic() < end:
        loss = run_step(model, opt, pool[step % 4], truth[step % 4])
        tidy(opt)
        step += 1
        if step == 10:
            end = time.monotonic() + args.seconds
        if step % 50 == 0:
            print(f"step {step:5d} loss {loss.item():.3f}")
    print("steps", step)


if __name__ == "__main__":
    main()
