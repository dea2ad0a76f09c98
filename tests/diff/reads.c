/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds when the driver reads the sources of a batch's members: reads [TIMES [MOST-KIB]]. The
 * program overwrites a source as soon as the call has returned, so the bytes that arrive are old,
 * new or mixed. Standard output has a line for each kind of call whose sources DURING_API_CALL
 * covers: all must be old. Results for the other orders are undefined and go to standard error.
 */
#include "kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LARGEST (16 * MIB)

enum { OLD = 0xaa, NEW = 0xbb, MEMBERS = 3 };

static const char spin_text[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
                                ".visible .entry spin(.param .u64 ns)\n{\n"
                                ".reg .u64 %a, %b, %n;\n.reg .pred %p;\n"
                                "ld.param.u64 %n, [ns];\nmov.u64 %a, %globaltimer;\n"
                                "again:\nmov.u64 %b, %globaltimer;\nsub.u64 %b, %b, %a;\n"
                                "setp.lt.u64 %p, %b, %n;\n@%p bra again;\nret;\n}\n";

static const struct {
    const char *name;
    CUmemcpySrcAccessOrder order;
} orders[] = {{"during", CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL},
              {"any", CU_MEMCPY_SRC_ACCESS_ORDER_ANY},
              {"stream", CU_MEMCPY_SRC_ACCESS_ORDER_STREAM}};

/* The other members of the batch. The examined member is the last. */
static const struct {
    const char *name;
    unsigned before;
    bool otherwise; /* these members have their own attributes, with stream order */
    bool old_entry; /* the entry point of CUDA 12 */
} batches[] = {{"alone", 0, false, false},
               {"with two of its kind", 2, false, false},
               {"behind two in stream order", 2, true, false},
               {"alone, by CUDA 12's entry", 0, false, true},
               {"behind two, by CUDA 12's entry", 2, true, true}};

static const size_t sizes[] = {4096, 64 << 10, 1 << 20, 4 << 20, LARGEST};
enum { KINDS = 5 };
static unsigned char *source[KINDS], *beside[MEMBERS], *back;
static const char *const kinds[KINDS] = {"pageable", "pinned", "registered", "shared",
                                         "half-registered"};
static CUdeviceptr to[MEMBERS];
static CUstream stream;
static CUfunction spin;
static unsigned times = 10;
static size_t most = LARGEST;

static void setup(void)
{
    CUmodule module;
    source[0] = kit_pageable(LARGEST);
    source[1] = kit_pinned(LARGEST);
    source[2] = kit_pageable(LARGEST);
    source[3] = mmap(NULL, LARGEST, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    WANT(source[3] != MAP_FAILED);
    source[4] = kit_pageable(LARGEST);
    MUST(cu.cuMemHostRegister_v2(source[4] + 2048, LARGEST - 2048, 0));
    back = kit_pageable(LARGEST);
    MUST(cu.cuMemHostRegister_v2(source[2], LARGEST, 0));
    for (int i = 0; i < MEMBERS; i++) {
        to[i] = kit_device(LARGEST);
        beside[i] = kit_pageable(LARGEST);
        memset(beside[i], OLD, LARGEST);
    }
    stream = kit_stream();
    MUST(cu.cuModuleLoadData(&module, spin_text));
    MUST(cu.cuModuleGetFunction(&spin, module, "spin"));
}

static CUresult issue(size_t order, size_t how, unsigned char *from, size_t size)
{
    const unsigned before = batches[how].before, count = before + 1;
    CUdeviceptr sources[MEMBERS];
    size_t lengths[MEMBERS], first[2] = {0, before}, failed = 0;
    CUmemcpyAttributes attributes[2] = {{.srcAccessOrder = orders[order].order},
                                        {.srcAccessOrder = orders[order].order}};
    const size_t attribute_count = batches[how].otherwise ? 2 : 1;
    if (batches[how].otherwise)
        attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    for (unsigned i = 0; i < count; i++) {
        sources[i] = (uintptr_t)(i < before ? beside[i] : from);
        lengths[i] = size;
    }
    CUdeviceptr *const ends = to + MEMBERS - count;
    if (batches[how].old_entry)
        return cu.cuMemcpyBatchAsync(ends, sources, lengths, count, attributes, first,
                                     attribute_count, &failed, stream);
    return cu.cuMemcpyBatchAsync_v2(ends, sources, lengths, count, attributes, first,
                                    attribute_count, stream);
}

static const char *once(size_t order, size_t how, unsigned char *from, size_t size, bool busy)
{
    uint64_t ns = 2000000;
    void *params[] = {&ns};
    memset(from, OLD, size);
    MUST(cu.cuMemsetD8_v2(to[MEMBERS - 1], 0, size));
    MUST(cu.cuStreamSynchronize(CU_STREAM_LEGACY));
    if (busy)
        MUST(cu.cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    const CUresult result = issue(order, how, from, size);
    memset(from, NEW, size);
    MUST(cu.cuStreamSynchronize(stream));
    if (result)
        return "refused";
    MUST(cu.cuMemcpyDtoH_v2(back, to[MEMBERS - 1], size));
    size_t old = 0, fresh = 0;
    for (size_t i = 0; i < size; i++) {
        old += back[i] == OLD;
        fresh += back[i] == NEW;
    }
    return old == size ? "old" : fresh == size ? "new" : old + fresh == size ? "mixed" : "wrong";
}

/* Prints the result if it was always the same, or else how often each result occurred. */
static void look(size_t order, size_t how, size_t kind, size_t size, bool busy)
{
    static const char *const words[] = {"old", "new", "mixed", "refused", "wrong"};
    unsigned seen[5] = {0};
    FILE *out = order == 0 ? stdout : stderr;
    for (unsigned i = 0; i < times; i++) {
        const char *word = once(order, how, source[kind], size, busy);
        for (int w = 0; w < 5; w++)
            seen[w] += strcmp(word, words[w]) == 0;
    }
    fprintf(out, "%s %s %zu KiB %s, stream %s:", orders[order].name, kinds[kind], size >> 10,
            batches[how].name, busy ? "busy" : "idle");
    for (int w = 0; w < 5; w++)
        if (seen[w] == times)
            fprintf(out, " %s", words[w]);
        else if (seen[w])
            fprintf(out, " %s %u times", words[w], seen[w]);
    fputc('\n', out);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        times = (unsigned)strtoul(argv[1], NULL, 10);
    if (argc > 2)
        most = strtoul(argv[2], NULL, 10) << 10;
    kit_start();
    kit_alarm(180);
    setvbuf(stdout, NULL, _IOLBF, 0); /* keeps the output if the alarm ends the program */
    if (!cu.cuMemcpyBatchAsync_v2)
        return 77;
    setup();
    for (size_t order = 0; order < sizeof orders / sizeof orders[0]; order++)
        for (size_t how = 0; how < sizeof batches / sizeof batches[0]; how++)
            for (size_t kind = 0; kind < KINDS; kind++)
                for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
                    for (int busy = 0; busy < 2; busy++)
                        if (sizes[i] <= most && (!batches[how].old_entry || cu.cuMemcpyBatchAsync))
                            look(order, how, kind, sizes[i], busy);
    puts("done");
    return 0;
}
