#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The user of h3's notebook: writes a cell, and thinks.
sleep 1
echo 'gpu = Gpu()'
sleep 2
for _ in 1 2 3 4 5 6; do
    echo '[gpu.launch(10_000) for _ in range(30)]; gpu.synchronize(); print("loss", gpu.item())'
    sleep 3
done
