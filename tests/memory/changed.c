/* SPDX-License-Identifier: Apache-2.0 */
/*
 * changed KIND: the program changes the pages of large blocks, or what it may do with them. Each case prints a line that
 * ends with "ok", or stops the program.
 *
 *   first       programs whose first hook or malloc is interrupted by a handler that calls a hook and forks
 *   replaced    the program maps a file over a block, or over a part of it, and frees the block: the file keeps its bytes
 *   grown       blocks become larger that the program maps a file over, protects or keeps from children
 *   holes       a child lacks large blocks (MADV_DONTFORK), and allocates at their addresses
 *   shrinks     blocks that become a quarter smaller return this quarter
 *   filter      after a filter that kills the process for mremap and mprotect, malloc and free work
 *   small_pages a block grows without a copy, although the kernel refuses huge pages
 *   lowered     blocks that take the place of larger ones hold only what they need
 *   sparse      blocks of which the program uses a page here and there take small pages
 *   refused     a request that the kernel refuses is no peak: memory of a first climb returns
 *   crowded     as replaced, with as many mappings as the kernel allows
 *   cut         aligned blocks, with as many mappings as the kernel allows: nothing is printed
 *   no_handlers a child without fork handlers (_Fork) limits its memory while the parent's threads allocate
 *   bound       a memory policy, and the advice to keep a block out of core dumps, end with the block
 *   relocked    a locked block that is freed leaves RLIMIT_MEMLOCK to the next one, of which another part is locked
 *   low         an alignment as large as the address space maps nothing at address 0
 */
#include "need.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

static volatile int bad;

static void on_signal(int number)
{
    int status = 1;
    (void)number;
    bad += mlock(NULL, 0) != 0;
    const pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    if (pid > 0 && (waitpid(pid, &status, 0) != pid || status))
        bad++;
}

/* In a new process: the handler interrupts the first hook or malloc, or comes soon before or after it. */
static void be_first(const char *delay)
{
    const struct itimerval when = {{0, 0}, {0, atoi(delay)}};
    signal(SIGALRM, on_signal);
    setitimer(ITIMER_REAL, &when, NULL);
    munmap(NULL, 0);
    free(malloc(100));
    for (volatile int i = 0; i < 400000; i++)
        ;
    _exit(bad);
}

static void first(void)
{
    for (int i = 0; i < times(60); i++) {
        char delay[16];
        int status = 0;
        const pid_t pid = fork();
        snprintf(delay, sizeof delay, "%d", 3 * i % 400 + 1);
        if (pid == 0) {
            setpgid(0, 0);
            execl("/proc/self/exe", "edges", "first", delay, (char *)NULL);
        }
        for (int waited = 0; waitpid(pid, &status, WNOHANG) == 0; waited++) {
            if (waited == 10000)
                kill(-pid, SIGKILL);
            need(waited < 10000, "the process ends");
            usleep(1000);
        }
        need(status == 0, "the first hook and malloc");
    }
    passed("first");
}

static void replace_part(size_t from, size_t size)
{
    char path[] = "/tmp/edges-XXXXXX", byte = 0;
    const int file = mkstemp(path);
    char *block = NULL;
    need(file >= 0 && unlink(path) == 0 && ftruncate(file, (off_t)size) == 0, "a file");
    need(posix_memalign((void **)&block, 2 * MIB, 40 * MIB) == 0, "an aligned block");
    touch(block, 40 * MIB);
    char *mapped =
        mmap(block + from, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
    need(mapped == block + from, "mmap over a block");
    memset(mapped, 7, size);
    free(block);
    block = malloc(40 * MIB);
    memset(block, 9, 40 * MIB);
    need(pread(file, &byte, 1, (off_t)size / 2) == 1 && byte == 7, "the file keeps its bytes");
    free(block);
    close(file);
}

#ifndef MAP_DROPPABLE
#define MAP_DROPPABLE 0x08
#endif

/* Children have zeros for such memory, and the kernel may make it zero in this process. Needs Linux 6.11. */
static void replace_droppable(size_t from, size_t size)
{
    const int flags = MAP_DROPPABLE | MAP_ANONYMOUS | MAP_FIXED;
    char *block = NULL;
    int status = 1;
    need(posix_memalign((void **)&block, 2 * MIB, 8 * MIB) == 0, "an aligned block");
    touch(block, 8 * MIB);
    if (mmap(block + from, size, PROT_READ | PROT_WRITE, flags, -1, 0) == block + from)
        memset(block + from, 7, size);
    free(block);
    block = malloc(8 * MIB);
    memset(block, 9, 8 * MIB);
    const pid_t pid = fork();
    if (pid == 0)
        _exit(block[0] != 9 || block[from] != 9 || block[from + size - 1] != 9 ||
              block[8 * MIB - 1] != 9);
    need(waitpid(pid, &status, 0) == pid && status == 0, "the child has the block");
    free(block);
}

static void replaced(void)
{
    replace_droppable(0, 8 * MIB);
    replace_droppable(2 * MIB, 2 * MIB);
    for (int i = 0; i < 2; i++) {
        replace_part(0, 40 * MIB);
        replace_part(20 * MIB, 10 * MIB);
        replace_part(0, PAGE);
    }
    passed("replaced");
}

/* If the CPU has no protection keys, the block is unchanged. */
static void protect_by_key(char *block, size_t size)
{
    const int key = pkey_alloc(0, 0);
    if (key >= 0)
        need(pkey_mprotect(block, size, PROT_READ | PROT_WRITE, key) == 0 &&
                 pkey_set(key, PKEY_DISABLE_WRITE) == 0,
             "a key");
}

static void change_whole(char *block, size_t size, int file, int way)
{
    const int all = PROT_READ | PROT_WRITE, over = MAP_FIXED | MAP_SHARED;
    switch (way) {
    case 0:
        need(mmap(block, size, all, over, file, 0) == block, "shared file");
        break;
    case 1:
        need(mmap(block, size, all, MAP_FIXED | MAP_PRIVATE, file, 0) == block, "private file");
        break;
    case 2:
        need(mmap(block, size, all, over | MAP_ANONYMOUS, -1, 0) == block, "shared memory");
        break;
    case 3:
        need(mprotect(block, size, PROT_READ) == 0, "mprotect");
        break;
    case 4:
        need(madvise(block, size, MADV_DONTFORK) == 0, "madvise");
        break;
    default:
        protect_by_key(block, size);
    }
}

static void grow_changed(int way, size_t size)
{
    const int file = memfd_create("grown", 0);
    char *block, byte = 7;
    int status = 1;
    need(file >= 0 && ftruncate(file, 8 * MIB) == 0, "a file");
    need(posix_memalign((void **)&block, PAGE, 8 * MIB) == 0, "an aligned block");
    char *const behind = touched(8 * MIB);
    /* Below it, the kernel chooses addresses that are no multiples of a huge page. */
    void *const below = mmap(NULL, 3 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    block[5 * MIB] = way < 3 ? 0 : 7;
    change_whole(block, 8 * MIB, file, way);
    if (way < 3)
        block[5 * MIB] = 7;
    block = realloc(block, size);
    need(block && block[5 * MIB] == 7, "the block's bytes");
    memset(block, 9, size);
    const pid_t pid = fork();
    if (pid == 0)
        _exit(block[MIB] != 9 || block[size - 1] != 9);
    need(waitpid(pid, &status, 0) == pid && status == 0, "the child has the block");
    need(pread(file, &byte, 1, MIB) == 1 && byte == 0, "the file keeps its bytes");
    free(block);
    free(behind);
    munmap(below, 3 * MIB);
    close(file);
}

/* glibc grows a block by mremap if all its pages are alike. */
static void grow_secret(size_t size, int locks)
{
    char *block = malloc(5 * MIB);
    char *const start = (char *)((uintptr_t)block & ~(uintptr_t)(PAGE - 1));
    const size_t length = ((size_t)(block - start) + 5 * MIB + PAGE - 1) & ~(size_t)(PAGE - 1);
    int status = 1;
    need(madvise(start, length, MADV_WIPEONFORK) == 0, "madvise");
    if (locks && mlock(start, length) != 0)
        return free(block);
    block = realloc(block, size);
    need(block != NULL, "a larger block");
    memset(block, 9, size);
    const pid_t pid = fork();
    if (pid == 0)
        _exit(block[MIB] != 0 || block[size - 1] != 0);
    need(waitpid(pid, &status, 0) == pid && status == 0, "the child lacks the block's bytes");
    free(block);
}

/* A program that compiles code into a block. */
static void grow_code(size_t size)
{
    static const unsigned char code[] = {0xb8, 7, 0, 0, 0, 0xc3};
    char *block = malloc(5 * MIB);
    char *const start = (char *)((uintptr_t)block & ~(uintptr_t)(PAGE - 1));
    const size_t length = ((size_t)(block - start) + 5 * MIB + PAGE - 1) & ~(size_t)(PAGE - 1);
    memcpy(block + MIB, code, sizeof code);
    if (mprotect(start, length, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) /* SELinux */
        return free(block);
    block = realloc(block, size);
    need(block != NULL, "a larger block");
#ifdef __x86_64__
    need(((int (*)(void))(uintptr_t)(block + MIB))() == 7, "the block's code");
#endif
    free(block);
}

/* All bytes that malloc_usable_size names are the program's, also in a block that takes the place of a larger one. */
static void grow_usable(void)
{
    free(touched(7 * MIB));
    char *block = malloc(7 * MIB - 200000);
    char *const middle = (char *)((uintptr_t)(block + 3 * MIB) & ~(uintptr_t)(PAGE - 1));
    const size_t usable = malloc_usable_size(block);
    memset(block, 7, usable);
    need(mprotect(middle, PAGE, PROT_READ) == 0, "mprotect");
    block = realloc(block, 9 * MIB);
    for (size_t i = 0; i < usable; i++)
        need(block[i] == 7, "the block's usable bytes");
    free(block);
}

static void grown(void)
{
    mallopt(M_MMAP_THRESHOLD, MIB); /* so that glibc maps each of the blocks */
    grow_usable();
    for (int way = 0; way < 6; way++) {
        grow_changed(way, 9 * MIB);
        grow_changed(way, 40 * MIB);
    }
    for (int locks = 0; locks < 2; locks++) { /* of at most 8 MiB, as RLIMIT_MEMLOCK */
        grow_secret(6 * MIB, locks);
        grow_secret((locks ? 7 : 40) * MIB, locks);
    }
    grow_code(6 * MIB);
    grow_code(40 * MIB);
    const struct rlimit limit = {(size_t)2 << 30, RLIM_INFINITY};
    need(setrlimit(RLIMIT_AS, &limit) == 0, "a limit, so that the kernel chooses the new place");
    for (int way = 0; way < 3; way++)
        grow_changed(way, 40 * MIB);
    passed("grown");
}

#define HOLES 40

static void fill_the_holes(void)
{
    enum { blocks = 300 };
    static char *block[blocks];
    for (size_t round = 0; round < 6; round++) {
        for (size_t i = 0; i < blocks; i++) {
            const size_t size =
                round % 2 ? (size_t)PAGE << i % 11 : (1 + i % 4) * MIB - 2 * PAGE * (i % 3);
            need(posix_memalign((void **)&block[i], PAGE, size) == 0, "a block in the child");
            block[i][0] = block[i][size - 1] = (char)i;
        }
        for (size_t i = 0; i < blocks; i++) {
            need(block[i][0] == (char)i, "content in the child");
            free(block[i]);
        }
    }
}

static void holes(void)
{
    for (size_t i = 0; i < HOLES; i++) {
        char *block;
        const size_t size = (4 + i % 5) * MIB;
        need(posix_memalign((void **)&block, 2 * MIB, size) == 0, "an aligned block");
        block[0] = 1;
        need(madvise(block, size, MADV_DONTFORK) == 0, "MADV_DONTFORK");
    }
    const pid_t pid = fork();
    if (pid == 0) {
        fill_the_holes();
        _exit(0);
    }
    int status = 1;
    need(waitpid(pid, &status, 0) == pid && status == 0, "the child");
    passed("holes");
}

static void shrinks(void)
{
    const long before = kib_of("self", "status", "VmRSS");
    for (int i = 0; i < 6; i++) {
        char *block = realloc(touched(40 * MIB), 31 * MIB);
        need(block != NULL, "realloc");
    }
    need(kib_of("self", "status", "VmRSS") - before < (6 * 31 + 24) << 10,
         "what blocks no longer need returns");
    passed("shrinks");
}

static long mib_since(long before)
{
    return (kib_of("self", "status", "VmRSS") - before) >> 10;
}

static void lowered(void)
{
    char *block[30];
    const long before = kib_of("self", "status", "VmRSS");
    for (size_t i = 0; i < 30; i++)
        block[i] = touched(7 * MIB);
    for (size_t i = 0; i < 30; i++) {
        free(block[i]);
        block[i] = touched(4 * MIB + 1);
    }
    need(mib_since(before) < 30 * 4 + 24, "a block holds what it needs");
    passed("lowered");
}

static void sparse(void)
{
    char setting[64] = "";
    const long before = kib_of("self", "status", "VmRSS");
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
    if (file && fgets(setting, sizeof setting, file) && !strstr(setting, "[always]")) {
        char *volatile block = malloc(256 * MIB);
        for (size_t i = 0; i < 256 * MIB; i += 2 * MIB)
            block[i] = 1;
        for (int i = 0; i < 20; i++)
            need(malloc(17 * MIB) != NULL, "malloc");
        need(mib_since(before) < 16, "a touch takes one page");
    }
    passed("sparse");
}

static void refused(void)
{
    char *block[20];
    const long before = kib_of("self", "status", "VmRSS");
    sleep(1); /* the engine has begun to watch */
    void *volatile huge = malloc((size_t)1 << 46);
    need(!huge, "a request for more than the machine has");
    for (size_t i = 0; i < 20; i++)
        block[i] = touched(16 * MIB);
    for (size_t i = 0; i < 20; i++)
        free(block[i]);
    need(mib_since(before) < 64 + 24, "memory of a first climb returns");
    passed("refused");
}

enum { PAGES = 200000 };

static char *unused_pages(void)
{
    return mmap(NULL, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/* Splits a mapping until the kernel refuses. */
static void use_all_mappings(char *area)
{
    size_t i = 0;
    while (i < PAGES && mprotect(area + i * PAGE, PAGE, PROT_READ) == 0)
        i += 2;
}

static void cut(void)
{
    const struct rlimit limit = {(rlim_t)1 << 40, RLIM_INFINITY};
    char *const area = unused_pages();
    need(setrlimit(RLIMIT_AS, &limit) == 0, "a limit, so that each block has a mapping");
    for (size_t i = 0; i < 6; i++) /* below the area */
        touched(3 * MIB);
    use_all_mappings(area);
    for (size_t i = 0; i < 100; i++)
        (void)!memalign(MIB >> i % 7, 20000 + i * 10000);
    passed("cut");
}

static void crowded(void)
{
    char path[] = "/tmp/edges-XXXXXX", byte = 0, *block[3];
    const int file = mkstemp(path);
    need(file >= 0 && unlink(path) == 0 && ftruncate(file, MIB) == 0, "a file");
    for (size_t i = 0; i < 3; i++) /* neighbours, which the kernel merges */
        need(posix_memalign((void **)&block[i], 2 * MIB, 6 * MIB) == 0, "an aligned block");
    char *const part = block[1] + 2 * MIB;
    need(mmap(part, MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == part,
         "mmap over a block");
    memset(part, 7, MIB);
    use_all_mappings(unused_pages());
    free(block[1]);
    block[1] = malloc(5 * MIB);
    if (block[1])
        memset(block[1], 9, 5 * MIB);
    need(pread(file, &byte, 1, MIB / 2) == 1 && byte == 7, "the file keeps its bytes");
    passed("crowded");
}

static volatile int enough;

static void *allocates(void *arg)
{
    while (!enough)
        free(touched(3 * MIB));
    return arg;
}

static void no_handlers(void)
{
    const struct rlimit limit = {(rlim_t)1 << 40, RLIM_INFINITY};
    pthread_t thread[4];
    for (int i = 0; i < 4; i++)
        need(pthread_create(&thread[i], NULL, allocates, NULL) == 0, "a thread");
    for (int i = 0; i < 50; i++) {
        int status = 1;
        const pid_t pid = _Fork();
        if (pid == 0) {
            alarm(5);
            _exit(setrlimit(RLIMIT_AS, &limit));
        }
        need(waitpid(pid, &status, 0) == pid && status == 0, "the child ends");
        usleep(500);
    }
    enough = 1;
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    passed("no_handlers");
}

static void filter(void)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mremap, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof steps / sizeof *steps, steps};
    free(touched(5 * MIB));
    need(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
    need(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "a filter");
    for (size_t i = 0; i < 12; i++) {
        free(touched((5 + i % 4) * MIB));
        char *zeroed = calloc(1, (8 - i % 4) * MIB);
        need(zeroed && zeroed[MIB] == 0, "calloc");
        zeroed[MIB] = 1;
        free(zeroed);
    }
    passed("filter");
}

static void small_pages(void)
{
    char *between[3], *block = touched(60 * MIB);
    const long before = kib_of("self", "status", "VmRSS");
    for (size_t i = 0; i < 3; i++) {
        between[i] = touched(5 * MIB); /* the block cannot grow in place */
        block = realloc(block, (80 + 20 * i) * MIB);
        need(block != NULL, "realloc");
    }
    need(kib_of("self", "status", "VmHWM") - before < 50 << 10, "no second copy");
    for (size_t i = 0; i < 3; i++)
        free(between[i]);
    free(block);
    passed("small_pages");
}

static void relocked(void)
{
    static const size_t kib[][2] = {{512, 7700}, {3000, 6000}, {4600, 3700}};
    const struct rlimit limit = {8 * MIB, 8 * MIB};
    need(setrlimit(RLIMIT_MEMLOCK, &limit) == 0, "RLIMIT_MEMLOCK");
    need(getuid() || setuid(65534) == 0, "setuid"); /* root has no limit */
    for (size_t i = 0; i < 2 * sizeof kib / sizeof *kib; i++) {
        const size_t size = kib[i / 2][i % 2] << 10;
        char *block;
        need(posix_memalign((void **)&block, PAGE, size) == 0, "an aligned block");
        errno = 0;
        need(mlock(block, size) == 0 && errno == 0, "mlock");
        free(block);
    }
    passed("relocked");
}

static void low(void)
{
    for (unsigned bit = 40; bit < 63; bit++)
        free(memalign((size_t)1 << bit, 8 * MIB));
    unsigned char present;
    need(mincore(NULL, PAGE, &present) == -1 && errno == ENOMEM, "nothing is mapped at address 0");
    passed("low");
}

static int is_in_core_dumps(const char *at)
{
    char line[512];
    unsigned long start, end;
    int within = 0, found = -1;
    FILE *file = fopen("/proc/self/smaps", "r");
    while (file && found < 0 && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
            within = (uintptr_t)at >= start && (uintptr_t)at < end;
        else if (within && strncmp(line, "VmFlags:", 8) == 0)
            found = !strstr(line, " dd");
    }
    if (file)
        fclose(file);
    return found;
}

static void bound(void)
{
    enum { bind_to = 2, of_address = 2 };
    unsigned long node = 1, nodes[16];
    char *block = touched(40 * MIB), *pages = block + PAGE - (uintptr_t)block % PAGE;
    int policy = -1;
    const long error = syscall(SYS_mbind, pages, 39 * MIB, bind_to, &node, 65UL, 0UL);
    need(error == 0 || errno == EPERM || errno == ENOSYS, "mbind");
    need(madvise(pages, 39 * MIB, MADV_DONTDUMP) == 0, "MADV_DONTDUMP");
    free(block);
    block = touched(40 * MIB);
    need(syscall(SYS_get_mempolicy, &policy, nodes, 1024UL, block + 20 * MIB, of_address) < 0 ||
             policy != bind_to,
         "the next block has the policy of its process");
    need(is_in_core_dumps(block + 20 * MIB) != 0, "the next block is in core dumps");
    passed("bound");
}

static const struct {
    const char *name;
    void (*run)(void);
} kinds[] = {{"first", first},
             {"replaced", replaced},
             {"grown", grown},
             {"holes", holes},
             {"shrinks", shrinks},
             {"filter", filter},
             {"small_pages", small_pages},
             {"lowered", lowered},
             {"sparse", sparse},
             {"refused", refused},
             {"crowded", crowded},
             {"no_handlers", no_handlers},
             {"low", low},
             {"cut", cut},
             {"bound", bound},
             {"relocked", relocked}};

int main(int argc, char **argv)
{
    if (argc == 3)
        be_first(argv[2]);
    if (argc == 2 && strcmp(argv[1], "small_pages") == 0)
        need(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0, "PR_SET_THP_DISABLE");
    start_engine_if_asked();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (argc == 2 && strcmp(argv[1], kinds[i].name) == 0) {
            kinds[i].run();
            return 0;
        }
    return 2;
}
