# SPDX-License-Identifier: Apache-2.0
"""A small training job on the CPU: DataLoader workers and OpenMP loops. Prints every loss with all bits.

torch_program.py START_METHOD [cuda]    with cuda it also initialises the driver, as a GPU job would
"""

import ctypes
import sys

import torch
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        chance = torch.Generator().manual_seed(index)
        image = torch.randn(3, 16, 16, generator=chance)
        return image, (image.sum() > 0).long(), torch.utils.data.get_worker_info().id


def bring_up_driver():
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context = ctypes.c_int(), ctypes.c_void_p()
    for error in (cuda.cuInit(0), cuda.cuDeviceGet(ctypes.byref(device), 0),
                  cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
                  cuda.cuCtxSetCurrent(context)):
        if error != 0:
            sys.exit(f"CUDA error {error}")


def main():
    method = sys.argv[1]
    if "cuda" in sys.argv[2:]:
        bring_up_driver()
    torch.manual_seed(1)
    torch.set_num_threads(2)
    torch.use_deterministic_algorithms(True)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                                torch.nn.Linear(8 * 14 * 14, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(Squares(), batch_size=8, num_workers=2, multiprocessing_context=method,
                        persistent_workers=True)
    for _ in range(2):
        workers = set()
        for images, labels, worker in loader:
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            workers |= set(worker.tolist())
            print(loss.item().hex())
        print("workers", sorted(workers))
    big = torch.arange(1 << 22, dtype=torch.float32)
    print("loop", (big.sin() * big.cos()).reshape(1 << 11, -1).sum(1).double().sum().item().hex())


if __name__ == "__main__":
    main()
