/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls without libc, for code that runs before the loader has relocated the library. They
 * return -errno and do not change errno.
 */
#ifndef GF_BASE_LOADER_RAW_SYSCALL_H
#define GF_BASE_LOADER_RAW_SYSCALL_H

#if defined(__x86_64__)
static inline long gf_raw_syscall(long number, long a, long b, long c, long d, long e)
{
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e;
    long ret;

    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return ret;
}
#elif defined(__aarch64__)
static inline long gf_raw_syscall(long number, long a, long b, long c, long d, long e)
{
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c, x3 __asm__("x3") = d, x4 __asm__("x4") = e;

    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
    return x0;
}
#else
#error "no system calls for this processor"
#endif

#endif
