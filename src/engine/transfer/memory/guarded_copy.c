/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/memory/guarded_copy.h"

#include "base/atomic.h"
#include "engine/transfer/memory/page.h"
#include "engine/transfer/setup/mutation.h"
#include "os/permit.h"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

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
    if (GF_MUTATED(ignores_barriers))
        return false;
    return !GF_MUTATED(touches_blindly) && (has_handler(SIGSEGV) || has_handler(SIGBUS));
}

static bool move(long call, char *own, size_t bytes, uintptr_t program)
{
    struct iovec local = {own, bytes}, remote = {(void *)program, bytes};
    return syscall(call, getpid(), &local, 1UL, &remote, 1UL, 0UL) == (long)bytes;
}

static enum gf_probed find_move(void)
{
    char from = 1, to = 0;
    return gf_probed_as(move(SYS_process_vm_readv, &to, 1, (uintptr_t)&from) &&
                        move(SYS_process_vm_writev, &from, 1, (uintptr_t)&to));
}

bool gf_guarded_copy_is_possible(void)
{
    static _Atomic unsigned char known;
    return gf_permit(gf_permit_read_memory) && gf_permit(gf_permit_write_memory) &&
           gf_probe(&known, find_move);
}

bool gf_guarded_read(char *to, const char *program, size_t bytes,
                     void (*copy)(char *to, const char *from, size_t bytes))
{
    char bounce[BOUNCE]; /* a buffer that fits into the L1 cache */
    for (size_t done = 0, part; done < bytes; done += part) {
        part = gf_min(bytes - done, BOUNCE);
        if (!move(SYS_process_vm_readv, bounce, part, (uintptr_t)program + done))
            return false;
        copy(to + done, bounce, part);
    }
    return true;
}

bool gf_guarded_write(char *program, const char *from, size_t bytes)
{
    return move(SYS_process_vm_writev, (char *)(uintptr_t)from, bytes, (uintptr_t)program);
}

void gf_guarded_touch(char *program, size_t bytes, bool write)
{
    const uintptr_t end = (uintptr_t)program + bytes;

    for (uintptr_t at = (uintptr_t)program; at < end; at = (at | (gf_page_size() - 1)) + 1)
        if (write)
            __atomic_fetch_add((char *)at, 0, __ATOMIC_RELAXED);
        else
            (void)*(volatile char *)at;
}
