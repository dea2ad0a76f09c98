/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/host_copy.h"

#include "base/atomic.h"
#include "engine/transfer/pages.h"
#include "os/permit.h"

#include <signal.h>
#include <sys/uio.h>

#define BOUNCE ((size_t)16 << 10)

/* The beginning of the kernel's struct, which differs from libc's. */
struct kernel_sigaction {
    void (*handler)(int);
    unsigned long rest[15];
};

/* Reads the signal's action by a system call, because some programs interpose sigaction. */
static bool has_handler(int signal)
{
    struct kernel_sigaction now = {0};
    return syscall(SYS_rt_sigaction, signal, NULL, &now, (size_t)8) == 0 &&
           now.handler != SIG_DFL && now.handler != SIG_IGN;
}

bool gf_faults_are_handled(void)
{
    return has_handler(SIGSEGV) || has_handler(SIGBUS);
}

/*
 * The kernel accesses the memory at `program` as this thread would, and the memory at `other` by its
 * pages, which it looks up first: a protection that comes after the look-up does not keep it away.
 */
static bool move(long call, const void *program, const void *other, size_t bytes)
{
    struct iovec local = {(void *)(uintptr_t)program, bytes},
                 remote = {(void *)(uintptr_t)other, bytes};
    return syscall(call, getpid(), &local, 1UL, &remote, 1UL, 0UL) == (long)bytes;
}

bool gf_program_copy(char *to, const char *program, size_t bytes)
{
    return move(SYS_process_vm_writev, program, to, bytes);
}

bool gf_program_write(char *program, const char *from, size_t bytes)
{
    return move(SYS_process_vm_readv, program, from, bytes);
}

static enum gf_probed find_move(void)
{
    char from = 1, to = 0;
    return gf_probed_as(gf_program_copy(&to, &from, 1) && gf_program_write(&from, &to, 1));
}

bool gf_program_copy_is_possible(void)
{
    static _Atomic unsigned char known;
    return gf_permit(gf_permit_read_memory) && gf_permit(gf_permit_write_memory) &&
           gf_probe(&known, find_move);
}

bool gf_program_read(char *to, const char *program, size_t bytes,
                     void (*copy)(char *to, const char *from, size_t bytes))
{
    char bounce[BOUNCE]; /* a buffer that fits into the L1 cache */
    for (size_t done = 0, part; done < bytes; done += part) {
        part = gf_min(bytes - done, BOUNCE);
        if (!gf_program_copy(bounce, program + done, part))
            return false;
        copy(to + done, bounce, part);
    }
    return true;
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#define LINE ((size_t)64)

static void copy_by_16(char *to, const char *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += LINE) {
        const __m128i a = _mm_loadu_si128((const __m128i *)(from + i));
        const __m128i b = _mm_loadu_si128((const __m128i *)(from + i + 16));
        const __m128i c = _mm_loadu_si128((const __m128i *)(from + i + 32));
        const __m128i d = _mm_loadu_si128((const __m128i *)(from + i + 48));
        _mm_stream_si128((__m128i *)(to + i), a);
        _mm_stream_si128((__m128i *)(to + i + 16), b);
        _mm_stream_si128((__m128i *)(to + i + 32), c);
        _mm_stream_si128((__m128i *)(to + i + 48), d);
    }
}

__attribute__((target("avx2"))) static void copy_by_32(char *to, const char *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += LINE) {
        const __m256i a = _mm256_loadu_si256((const __m256i *)(from + i));
        const __m256i b = _mm256_loadu_si256((const __m256i *)(from + i + 32));
        _mm256_stream_si256((__m256i *)(to + i), a);
        _mm256_stream_si256((__m256i *)(to + i + 32), b);
    }
}

__attribute__((target("avx512f"))) static void copy_by_64(char *to, const char *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += LINE)
        _mm512_stream_si512((__m512i *)(to + i), _mm512_loadu_si512(from + i));
}

#define PREFETCH_AHEAD 1024 /* prefetch distance for writing, in bytes */
/*
 * A line is demoted only when the stores have advanced this many bytes beyond it, because the store
 * to the line has completed by then.
 */
#define DEMOTE_BEHIND 512

static inline void cldemote(char *line)
{
    __asm__ volatile(".byte 0x0f, 0x1c, 0x00" ::"a"(line) : "memory"); /* cldemote (%rax) */
}

__attribute__((target("avx512f"))) static void copy_by_64_demoted(char *to, const char *from,
                                                                  size_t bytes)
{
    for (size_t i = 0; i < bytes; i += LINE) {
        /* prefetching beyond the end never causes a fault */
        __asm__ volatile("prefetchw %0" ::"m"(to[i + PREFETCH_AHEAD]));
        _mm512_store_si512((__m512i *)(to + i), _mm512_loadu_si512(from + i));
        if (i >= DEMOTE_BEHIND)
            cldemote(to + i - DEMOTE_BEHIND);
    }
    for (size_t i = bytes > DEMOTE_BEHIND ? bytes - DEMOTE_BEHIND : 0; i < bytes; i += LINE)
        cldemote(to + i);
}

static bool has_sse2(void)
{
    return true;
}

static const struct gf_nt_copy_way ways[] = {
    {gf_simd_has_avx512, copy_by_64_demoted, true},
    {gf_simd_has_avx512, copy_by_64, false},
    {gf_simd_has_avx2, copy_by_32, false},
    {has_sse2, copy_by_16, false},
};

const struct gf_nt_copy_way *gf_nt_copy_ways(size_t *ret_count)
{
    *ret_count = GF_ARRAY_LEN(ways);
    return ways;
}

/* Intel's Software Developer's Manual, volume 2, CPUID: leaf 7, ECX bit 25. */
static enum gf_probed find_cldemote(void)
{
    unsigned a, b, c, d;
    return gf_probed_as(gf_simd_has_avx512() && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
                        (c & (1u << 25)));
}

bool gf_cldemote_is_possible(void)
{
    static _Atomic unsigned char known;
    return gf_probe(&known, find_cldemote);
}

typedef void copy_lines_fn(char *to, const char *from, size_t bytes);

static copy_lines_fn *choose_copy(void)
{
    for (size_t i = 0; i < GF_ARRAY_LEN(ways) - 1; i++)
        if (!ways[i].demotes && ways[i].can_run())
            return ways[i].copy_lines;
    return copy_by_16;
}

static void copy_all(copy_lines_fn *copy, char *to, const char *from, size_t bytes)
{
    const size_t whole = bytes / LINE * LINE;
    copy(to, from, whole);
    memcpy(to + whole, from + whole, bytes - whole);
    _mm_sfence(); /* completes non-temporal stores before the caller counts the bytes as copied */
}

void gf_nt_copy(char *to, const char *from, size_t bytes)
{
    /* Several threads may choose at the same time, because all of them choose the same function. */
    static copy_lines_fn *_Atomic chosen;
    copy_lines_fn *copy = gf_load_relaxed(&chosen);

    if (!copy) {
        copy = choose_copy();
        gf_store_relaxed(&chosen, copy);
    }
    copy_all(copy, to, from, bytes);
}

void gf_cldemote_copy(char *to, const char *from, size_t bytes)
{
    if (gf_cldemote_is_possible())
        copy_all(copy_by_64_demoted, to, from, bytes);
    else
        gf_nt_copy(to, from, bytes);
}
#else
void gf_nt_copy(char *to, const char *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

void gf_cldemote_copy(char *to, const char *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

bool gf_cldemote_is_possible(void)
{
    return false;
}

const struct gf_nt_copy_way *gf_nt_copy_ways(size_t *ret_count)
{
    *ret_count = 0;
    return NULL;
}
#endif
