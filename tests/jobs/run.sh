#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs one job: run.sh NAME [plain]. With `plain`, the library is not preloaded. BUILD is the build folder.
here=$(cd "$(dirname "$0")" && pwd)
build=${BUILD:-$here/../../build}
python=${PYTHON:-/usr/bin/python3}
name=$1
work=$(mktemp -d)
helpers=()
trap 'kill "${helpers[@]}" 2>/dev/null; rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1

job() {
    if [ "$plain" ]; then
        LD_LIBRARY_PATH=$build/tests/sim PYTHONPATH=$here/site-packages "$@"
    else
        LD_LIBRARY_PATH=$build/tests/sim PYTHONPATH=$here/site-packages GPUFEED_VERBOSE=1 \
            LD_PRELOAD=$build/src/preload/libgpufeed.so "$@"
    fi
}

helper() {
    "$@" &
    helpers+=($!)
}

plain=$2
cd "$here" || exit 1
port=$((20000 + $$ % 20000))
case $name in
j04*)
    helper "$python" peer_cache.py "$work"
    sleep 2
    job "$python" j04_flock.py "$work" ;;
j06*)
    helper "$python" peer_store.py $port
    sleep 2
    job "$python" j06_object_store.py http://127.0.0.1:$port ;;
j07*) job taskset -c 1 "$python" j07_one_cpu.py ;;
j09*) job "$python" j09_slow_log.py | "$python" peer_shipper.py ;;
j10*)
    export MASTER_ADDR=127.0.0.1 MASTER_PORT=$port WORLD_SIZE=2 LOCAL_WORLD_SIZE=2
    RANK=1 LOCAL_RANK=0 job "$python" j10_straggler.py &
    RANK=0 LOCAL_RANK=0 job "$python" j10_straggler.py
    wait ;;
j11*)
    folder=$(mktemp -d /var/tmp/state.XXXXXX)
    job "$python" j11_checkpoint.py "$folder"
    rm -rf "$folder" ;;
j12*)
    table=/var/tmp/features.bin
    "$python" - $table <<'P'
import os, sys
path = sys.argv[1]
if not os.path.exists(path) or os.path.getsize(path) != 300_000 * 4096:
    with open(path, "wb") as file:
        for _ in range(300):
            file.write(os.urandom(1000 * 4096))
        file.flush()
        os.fsync(file.fileno())
file = os.open(path, os.O_RDONLY)
os.fsync(file)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
P
    job "$python" j12_mmap_gather.py $table ;;
j08*) SIM_DELAY=cuStreamSynchronize:500 job "$python" j08_greedy.py ;;
j13*)
    ${CC:-cc} -O1 -g -o "$work/j13" j13_device_alloc.c || exit 1
    SIM_DELAY=cuMemFree_v2:8000 job "$work/j13" ;;
h2*)
    helper "$python" peer_client.py $port
    job "$python" h2_server.py $port ;;
h3*) sh peer_user.sh | job "$python" h3_notebook.py ;;
h5*)
    helper sh -c "for n in 1 2 3 4 5 6 7; do : > $work/\$n.job; sleep 3; done"
    job "$python" h5_spool.py "$work" ;;
*) job "$python" "$name"*.py ;;
esac
