/* SPDX-License-Identifier: Apache-2.0 */
/*
 * edges KIND: single cases of large blocks, each of which prints a line that ends with "ok", or stops the program.
 *
 *   parts       the program locks, protects or advises a part of a block, and then grows or frees the block
 *   zero        calloc after frees of used blocks of many sizes is zero, also behind the block's size
 *   many        more large blocks than a process may have mappings
 *   limits      sizes and alignments that no allocator can serve: errno, and the old block stays
 *   registered  a block that is registered with CUDA grows, shrinks and is freed
 *   thread_end  blocks of threads that ended, frees in destructors of thread-specific data, threads that only free
 *   forks       forks while other threads allocate, grow and free large blocks
 *   stacks      large blocks on threads with the smallest stacks
 *   vfork       a vforked child sets a limit; the parent is not limited
 *   locked      mlockall, growth and frees: locked memory returns
 *   info        mallinfo2 and malloc_usable_size count large blocks, and malloc_trim returns them
 *   signals     fork in a signal handler that interrupted the allocator of a process with one thread
 */
#include "need.h"
#include "program.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>

static void fill(char *block, size_t size, int seed)
{
    for (size_t i = 0; i < size; i += 512)
        block[i] = (char)(seed + (int)(i >> 9));
    block[size - 1] = (char)seed;
}

static int filled(const char *block, size_t size, int seed)
{
    for (size_t i = 0; i < size; i += 512)
        if (i != size - 1 && block[i] != (char)(seed + (int)(i >> 9)))
            return 0;
    return 1;
}

static int advise_no_fork(void *at, size_t size)
{
    return madvise(at, size, MADV_DONTFORK);
}

static int advise_huge(void *at, size_t size)
{
    return madvise(at, size, MADV_HUGEPAGE) && errno != EINVAL;
}

static int wipe_on_fork(void *at, size_t size)
{
    return madvise(at, size, MADV_WIPEONFORK);
}

static int lock_pages(void *at, size_t size)
{
    return mlock(at, size) && errno != ENOMEM && errno != EPERM;
}

static int read_only(void *at, size_t size)
{
    return mprotect(at, size, PROT_READ);
}

/* Natively free unmaps such a block, so the next block has none of these properties. */
static void part(const char *what, int (*change)(void *, size_t), size_t size, int grows)
{
    char *block = touched(size);
    fill(block, size, 5);
    need(change((char *)(((uintptr_t)block + size / 4) & ~(uintptr_t)(PAGE - 1)), size / 4) == 0,
         what);
    if (grows) {
        block = realloc(block, 2 * size);
        need(block && filled(block, size, 5), what);
        size *= 2;
    }
    free(block);
    for (int i = 0; i < scaled(3, 2); i++) {
        char *next = calloc(1, size + (size_t)i * MIB);
        need(next != NULL, what);
        for (size_t at = 0; at < size; at += PAGE)
            need(next[at] == 0, what);
        fill(next, size, 9);
        const pid_t pid = fork();
        if (pid == 0)
            _exit(filled(next, size, 9) ? 0 : 4);
        int status = 1;
        need(waitpid(pid, &status, 0) == pid && status == 0, what);
        free(next);
    }
    passed(what);
}

static void parts(void)
{
    for (int grows = 0; grows < 2; grows++) {
        part("no huge pages in a part", advise_huge, (grows ? 33 : 5) * MIB, grows);
        part("a locked part", lock_pages, (grows ? 33 : 5) * MIB, grows);
        part("a part that children do not inherit", advise_no_fork, 33 * MIB, grows);
        part("a part that is wiped in children", wipe_on_fork, 33 * MIB, grows);
    }
    part("a part that is read-only", read_only, 40 * MIB, 0);
}

static void zero(void)
{
    uint64_t seed = 3;
    for (int i = 0; i < times(20); i++) {
        const size_t size = 3 * MIB + chance(&seed) % (20 * MIB),
                     other = 3 * MIB + chance(&seed) % (30 * MIB);
        char *block = malloc(size), *second = malloc(other);
        fill(block, size, i);
        fill(second, other, i);
        if (i % 3 == 0)
            second = realloc(second, other + other / 2);
        if (i % 3 == 1)
            second = realloc(second, other / 2 + 4 * MIB);
        free(block);
        free(second);
        const size_t wanted = i % 4 == 3 ? size + other : 3 * MIB + chance(&seed) % (size + MIB);
        char *zeroed = calloc(1, wanted);
        const size_t usable = malloc_usable_size(zeroed);
        for (size_t at = 0; at < usable; at += 64)
            need(zeroed[at] == 0, "zero");
        need(zeroed[usable - 1] == 0, "zero at the end");
        fill(zeroed, wanted, 7);
        free(zeroed);
    }
    passed("zero");
}

static void many(void)
{
    enum { count = 70000 };
    static char *block[count];
    int made = 0;
    for (; made < count; made++) {
        if (!(block[made] = malloc(4 * MIB + (size_t)(made % 3) * PAGE)))
            break;
        if (made % 97 == 0)
            block[made][100] = (char)made;
    }
    need(made >= 20000 || made == 0,
         "many blocks"); /* the kernel may refuse so much address space */
    void *map = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(map != MAP_FAILED, "a mapping beside many blocks");
    for (int i = 0; i < made; i += 97)
        need(block[i][100] == (char)i, "content of many blocks");
    for (int i = 0; i < made; i += 2)
        free(block[i]);
    for (int i = 1; i < made; i += 500) /* another allocator than glibc's copies them */
        block[i] = realloc(block[i], i % 4 == 1 ? 6 * MIB : 1000);
    for (int i = 1; i < made; i += 2)
        free(block[i]);
    free(touched(9 * MIB));
    passed("many blocks");
}

static void limits(void)
{
    char *block = touched(6 * MIB);
    void *aligned = (void *)1;
    fill(block, 6 * MIB, 1);
    static const size_t size[] = {
        SIZE_MAX,        SIZE_MAX - PAGE, (size_t)PTRDIFF_MAX, (size_t)PTRDIFF_MAX - 3 * MIB,
        (size_t)1 << 47, (size_t)1 << 46};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        errno = 0;
        need(!malloc(size[i]) && errno == ENOMEM, "malloc of an impossible size");
        errno = 0;
        need(!realloc(block, size[i]) && errno == ENOMEM, "realloc to an impossible size");
        errno = 0;
        need(!calloc(size[i] / 16 + 1, 16) && errno == ENOMEM, "calloc of an impossible size");
        need(posix_memalign(&aligned, 4096, size[i]) == ENOMEM && aligned == (void *)1,
             "posix_memalign of an impossible size");
        errno = 0;
        need(!memalign(4 * MIB, size[i]) && errno == ENOMEM, "memalign of an impossible size");
    }
    errno = 0;
    need(!reallocarray(block, SIZE_MAX / 2, 4) && errno == ENOMEM, "reallocarray");
    need(filled(block, 6 * MIB, 1), "content after failures");
    for (size_t alignment = 16; alignment <= 64 * MIB; alignment *= 2) {
        char *at = memalign(alignment, 5 * MIB);
        need(at && (uintptr_t)at % alignment == 0, "alignment");
        fill(at, 5 * MIB, 2);
        at = realloc(at, 11 * MIB);
        need(at && filled(at, 5 * MIB, 2), "aligned block that grew");
        free(at);
    }
    need(realloc(block, 0) == NULL, "realloc to 0");
    passed("limits");
}

typedef int register_t_(void *, size_t, unsigned);
typedef int unregister_t(void *);

static void registered(void)
{
    setenv("MEMORY_ENGINE", "1", 1);
    start_engine_if_asked();
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    register_t_ *pin = dlsym(driver, "cuMemHostRegister_v2");
    unregister_t *unpin = dlsym(driver, "cuMemHostUnregister");
    need(pin && unpin, "functions of the driver");
    for (int i = 0; i < 20; i++) {
        char *block = touched(8 * MIB + (size_t)i * MIB), *same = block;
        fill(block, 8 * MIB, i);
        need(pin(block, 8 * MIB, 0) == 0, "register");
        if (i % 2)
            block = realloc(block, (size_t)(i % 4 == 1 ? 40 : 5) * MIB);
        need(block && filled(block, 5 * MIB, i), "content of a registered block");
        if (i % 4 == 1)
            fill(block, 40 * MIB, i);
        if (i % 3)
            unpin(same);
        free(block);
        if (i % 3 == 0)
            unpin(same);
    }
    passed("registered");
}

static pthread_key_t key;

static void free_late(void *block)
{
    free(block);
    free(touched(5 * MIB));
}

static void *leave_block(void *arg)
{
    pthread_setspecific(key, touched(6 * MIB));
    return arg ? touched(7 * MIB) : NULL;
}

static void *free_only(void *block)
{
    free(block);
    return NULL;
}

static void thread_end(void)
{
    pthread_key_create(&key, free_late);
    for (int i = 0; i < times(60); i++) {
        pthread_t first, second;
        void *block;
        need(pthread_create(&first, NULL, leave_block, &key) == 0, "thread");
        pthread_join(first, &block);
        need(pthread_create(&second, NULL, free_only, block) == 0, "thread");
        pthread_join(second, NULL);
    }
    passed("thread_end");
}

static volatile int over;

static void *busy(void *arg)
{
    uint64_t seed = (uintptr_t)arg;
    while (!over) {
        char *block = touched(3 * MIB + chance(&seed) % (9 * MIB));
        block = realloc(block, 4 * MIB + chance(&seed) % (20 * MIB));
        block[4 * MIB - 1] = 1;
        free(block);
    }
    return NULL;
}

static void *fork_often(void *arg)
{
    for (int i = 0; i < scaled(75, 8); i++) {
        int status = 1;
        const pid_t pid = fork();
        if (pid == 0) {
            alarm(20);
            char *block = touched(5 * MIB);
            block = realloc(block, 20 * MIB);
            touch(block, 20 * MIB);
            free(block);
            block = calloc(1, 9 * MIB);
            need(block[5 * MIB] == 0, "zero in a child");
            malloc_trim(0);
            _exit(0);
        }
        need(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "a child");
    }
    return arg;
}

static void forks(void)
{
    pthread_t thread[3], other;
    for (uintptr_t i = 0; i < 3; i++)
        need(pthread_create(&thread[i], NULL, busy, (void *)(i + 1)) == 0, "thread");
    need(pthread_create(&other, NULL, fork_often, NULL) == 0, "thread");
    fork_often(NULL);
    pthread_join(other, NULL);
    over = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    passed("forks");
}

static void *on_a_small_stack(void *arg)
{
    for (int i = 0; i < 20; i++) {
        char *block = touched(5 * MIB), *zeroed = calloc(1, 6 * MIB);
        block = realloc(block, 17 * MIB);
        block[16 * MIB] = 1;
        free(block);
        free(zeroed);
        malloc_trim(0);
    }
    return arg;
}

static void stacks(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    need(pthread_attr_setstacksize(&attributes, (size_t)sysconf(_SC_THREAD_STACK_MIN)) == 0,
         "stack size");
    for (int i = 0; i < times(6); i++) {
        need(pthread_create(&thread, &attributes, on_a_small_stack, NULL) == 0, "thread");
        pthread_join(thread, NULL);
    }
    passed("stacks");
}

static void vforked(void)
{
    const struct rlimit limit = {(rlim_t)1 << 40, RLIM_INFINITY};
    int status = 1;
    const pid_t pid = vfork();
    if (pid == 0)
        _exit(setrlimit(RLIMIT_AS, &limit) != 0);
    need(waitpid(pid, &status, 0) == pid && status == 0, "vfork");
    struct rlimit old;
    need(prlimit(getppid(), RLIMIT_AS, NULL, &old) == 0 || errno == EPERM,
         "prlimit of another process");
    const clock_t before = clock();
    for (int i = 0; i < 3000; i++)
        free(touched(64 << 10)), free(touched(300 << 10));
    printf("{\"cpu\": %.3f}\n", (double)(clock() - before) / CLOCKS_PER_SEC);
    passed("vfork");
}

static void locked(void)
{
    if (mlockall(MCL_CURRENT | MCL_FUTURE)) {
        passed("locked");
        return;
    }
    const long before = kib_of("self", "status", "VmLck");
    for (int i = 0; i < 5; i++) {
        char *block = malloc(20 * MIB);
        need(block != NULL, "malloc of locked memory");
        block = realloc(block, 45 * MIB);
        need(block != NULL, "realloc of locked memory");
        char *zeroed = calloc(1, 30 * MIB);
        for (size_t at = 0; at < 30 * MIB; at += PAGE)
            need(zeroed[at] == 0, "zero of locked memory");
        fill(zeroed, 30 * MIB, 2);
        free(block);
        free(zeroed);
        for (int k = 0; k < 40; k++)
            free(touched(MIB));
    }
    malloc_trim(0);
    need(kib_of("self", "status", "VmLck") - before < 16 << 10, "locked memory returns");
    const long peak = kib_of("self", "status", "VmHWM");
    char *block = malloc(120 * MIB), *between[3];
    for (size_t i = 0; i < 3; i++) {
        between[i] = malloc(5 * MIB); /* the block cannot grow in place */
        block = realloc(block, (120 + 60 * i) * MIB);
    }
    need(kib_of("self", "status", "VmHWM") - peak < (260 << 10),
         "growth does not populate both places");
    free(block);
    for (size_t i = 0; i < 3; i++)
        free(between[i]);
    munlockall();
    passed("locked");
}

static void info(void)
{
    const struct mallinfo2 before = mallinfo2();
    char *block[20];
    for (int i = 0; i < 20; i++)
        block[i] = touched(5 * MIB + (size_t)i);
    const struct mallinfo2 during = mallinfo2();
    need(during.uordblks + during.hblkhd - before.uordblks - before.hblkhd >= 100 * MIB,
         "mallinfo2 counts blocks");
    for (int i = 0; i < 20; i++) {
        need(malloc_usable_size(block[i]) >= 5 * MIB + (size_t)i, "usable size");
        memset(block[i], 3, malloc_usable_size(block[i]));
        free(block[i]);
    }
    malloc_trim(0);
    need(kib_of("self", "status", "VmRSS") < 30 << 10, "malloc_trim returns memory");
    need(mallinfo2().uordblks + mallinfo2().hblkhd < during.uordblks + during.hblkhd - 90 * MIB,
         "mallinfo2 counts frees");
    passed("info");
}

static volatile int forked, bad;
static const struct itimerval soon = {
    {0, 0}, {0, 700}}; /* once, so that a slow fork does not stop the program */

static void on_signal(int number)
{
    const pid_t pid = fork();
    int status = 1;
    (void)number;
    if (pid == 0)
        _exit(0);
    if (pid > 0 && (waitpid(pid, &status, 0) != pid || status))
        bad++;
    forked++;
    setitimer(ITIMER_REAL, &soon, NULL);
}

static void signals(void)
{
    const struct itimerval never = {{0, 0}, {0, 0}};
    uint64_t seed = 1;
    free(touched(1));
    signal(SIGALRM, on_signal);
    on_signal(0); /* the library has started before */
    for (int i = 0; i < 4000 && forked < 300; i++) {
        char *block = malloc(3 * MIB + chance(&seed) % (12 * MIB));
        block[5] = 1;
        block = realloc(block, 4 * MIB + chance(&seed) % (20 * MIB));
        free(block);
        free(touched(chance(&seed) % (300 << 10)));
    }
    setitimer(ITIMER_REAL, &never, NULL);
    need(!bad, "a child of a signal handler");
    passed("signals");
}

static const struct {
    const char *name;
    void (*run)(void);
} kinds[] = {{"parts", parts},
             {"zero", zero},
             {"many", many},
             {"limits", limits},
             {"registered", registered},
             {"thread_end", thread_end},
             {"forks", forks},
             {"stacks", stacks},
             {"vfork", vforked},
             {"locked", locked},
             {"info", info},
             {"signals", signals}};

int main(int argc, char **argv)
{
    start_engine_if_asked();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (argc == 2 && strcmp(argv[1], kinds[i].name) == 0) {
            kinds[i].run();
            return 0;
        }
    return 2;
}
