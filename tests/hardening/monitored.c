/* SPDX-License-Identifier: Apache-2.0 */
/*
 * monitored MONITOR CASE [gpu]: imitates a registration cache. Fills heap blocks, frees them in ways that may
 * remove their pages, and checks that the memory monitor was notified of each removed page.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <linux/userfaultfd.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define HEARD_MAX 100000

static struct {
    char *start, *end;
} heard[HEARD_MAX];
static int heard_count;
static int allocates; /* whether callbacks allocate and free */
static __thread int depth;

/*
 * Allocates blocks in a callback. Each block contains its own address, so that the test notices a
 * block that malloc returned twice.
 */
static void allocate(void)
{
    static __thread void **kept[16];
    static __thread unsigned seed = 1;
    static const size_t sizes[] = {16, 200, 5000, 20000, 100000, 300000, 1 << 20, 3 << 20};

    for (int i = 0; i < 8; i++) {
        seed = seed * 1103515245 + 12345;
        void ***const at = &kept[seed / 65536 % 16];
        if (*at && (*at)[0] != (void *)*at)
            abort();
        free(*at);
        *at = malloc(sizes[seed / 4096 % 8]);
        (*at)[0] = *at;
    }
}

static void hear(void *start, size_t size)
{
    const int at = __atomic_fetch_add(&heard_count, 1, __ATOMIC_RELAXED);

    if (at < HEARD_MAX) {
        heard[at].start = start;
        heard[at].end = (char *)start + size;
    }
    if (allocates && depth++ == 0)
        allocate();
    if (allocates)
        depth--;
}

/* UCX's monitor. The structs are those of UCX's public header, as of 1.13. */
struct unmapped {
    void *address;
    size_t size;
};

static void hear_event(int type, const struct unmapped *event, void *arg)
{
    hear(event->address, event->size);
}

static int monitor_ucm(void)
{
    /* Libucm calls functions of libucs. */
    void *const base = dlopen("libucs.so.0", RTLD_NOW | RTLD_GLOBAL);
    void *const ucm = base ? dlopen("libucm.so.0", RTLD_NOW) : NULL;
    int (*const set)(int, int, void (*)(int, const struct unmapped *, void *), void *) =
        ucm ? dlsym(ucm, "ucm_set_event_handler") : NULL;

    return set && set(1 << 17, 0, hear_event, NULL) % 256 == 0; /* UCM_EVENT_VM_UNMAPPED */
}

/* Open MPI's monitor, which its registration caches use: the component "patcher" rewrites libc's code. */
static void hear_release(void *start, size_t size, void *arg, _Bool from_allocator)
{
    hear(start, size);
}

static int monitor_openmpi(void)
{
    void *const pal = dlopen("libopen-pal.so.40", RTLD_NOW | RTLD_GLOBAL);
    int (*const init)(int *, char ***) = pal ? dlsym(pal, "opal_init") : NULL;
    int (*const open)(void *, int) = pal ? dlsym(pal, "mca_base_framework_open") : NULL;
    void *const framework = pal ? dlsym(pal, "opal_memory_base_framework") : NULL;
    int (*const set)(void (*)(void *, size_t, void *, _Bool), void *) =
        pal ? dlsym(pal, "opal_mem_hooks_register_release") : NULL;

    return init && open && framework && set && init(NULL, NULL) == 0 && open(framework, 0) == 0 &&
           set(hear_release, NULL) == 0;
}

#ifdef MEMHOOKS
/*
 * The program links libfabric's object file, with `start` made global. It defines the functions and
 * variables that this file needs of libfabric. So libfabric's monitor notifies this program instead
 * of a cache.
 */
int ofi_memhooks_start(void *monitor);
extern void *memhooks_monitor;
char core_prov[1024];
pthread_mutex_t mm_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
pthread_rwlock_t mm_list_rwlock = PTHREAD_RWLOCK_INITIALIZER;
void ofi_monitor_init(void *monitor)
{
}
void ofi_monitor_cleanup(void *monitor)
{
}
int fi_log_enabled(void)
{
    return 0;
}
void fi_log(void)
{
}
const char *fi_strerror(int error)
{
    return "";
}

void ofi_monitor_notify(void *monitor, const void *start, size_t size)
{
    hear((void *)start, size);
}

static int monitor_memhooks(void)
{
    return ofi_memhooks_start(memhooks_monitor) == 0;
}
#endif

/* A monitor that writes its function into the procedure linkage tables of all objects. */
static int hear_munmap(void *start, size_t size)
{
    static int (*next)(void *, size_t);

    if (!next) /* the first definition, as libfabric finds it */
        next = dlsym(RTLD_DEFAULT, "munmap");
    hear(start, size);
    return next(start, size);
}

static int hear_madvise(void *start, size_t size, int advice)
{
    static int (*next)(void *, size_t, int);

    if (!next)
        next = dlsym(RTLD_DEFAULT, "madvise");
    if (advice == MADV_DONTNEED)
        hear(start, size);
    return next(start, size, advice);
}

static void *hear_mmap(void *start, size_t size, int protection, int flags, int fd, off_t offset)
{
    static void *(*next)(void *, size_t, int, int, int, off_t);

    if (!next)
        next = dlsym(RTLD_DEFAULT, "mmap");
    if (flags & MAP_FIXED)
        hear(start, size);
    return next(start, size, protection, flags, fd, offset);
}

static const struct {
    const char *name;
    void *function;
} written[] = {{"munmap", hear_munmap}, {"madvise", hear_madvise}, {"mmap", hear_mmap}};

static int write_table(struct dl_phdr_info *info, size_t size, void *arg)
{
    const ElfW(Dyn) *dynamic = NULL;
    const ElfW(Rela) *at = NULL;
    const ElfW(Sym) *symbols = NULL;
    const char *strings = NULL;
    size_t bytes = 0;

    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; dynamic && dynamic->d_tag; dynamic++) {
        if (dynamic->d_tag == DT_JMPREL)
            at = (const void *)dynamic->d_un.d_ptr;
        if (dynamic->d_tag == DT_PLTRELSZ)
            bytes = dynamic->d_un.d_val;
        if (dynamic->d_tag == DT_SYMTAB)
            symbols = (const void *)dynamic->d_un.d_ptr;
        if (dynamic->d_tag == DT_STRTAB)
            strings = (const void *)dynamic->d_un.d_ptr;
    }
    if ((uintptr_t)at < info->dlpi_addr) /* the vDSO */
        return 0;
    for (size_t i = 0; i < bytes / sizeof(*at); i++)
        for (int k = 0; k < 3; k++)
            if (strcmp(strings + symbols[ELF64_R_SYM(at[i].r_info)].st_name, written[k].name) ==
                0) {
                void **const slot = (void **)(info->dlpi_addr + at[i].r_offset);
                mprotect((void *)((uintptr_t)slot & -PAGE), PAGE, PROT_READ | PROT_WRITE);
                *slot = written[k].function;
            }
    return 0;
}

static int monitor_tables(void)
{
    hear_munmap(NULL, 0); /* finds the original functions before any lock is held */
    hear_madvise(NULL, 0, MADV_NORMAL);
    hear_mmap(NULL, 0, 0, 0, -1, 0);
    dl_iterate_phdr(write_table, NULL);
    return 1;
}

/*
 * The monitor userfaultfd: the kernel lets each removal wait until the reader thread has read its
 * event.
 */
static int faults = -1, asked[2], answered[2];

static void *read_events(void *arg)
{
    struct pollfd ready[2] = {{.fd = faults, .events = POLLIN}, {.fd = asked[0], .events = POLLIN}};
    struct uffd_msg event;
    char asks;

    for (;;) {
        poll(ready, 2, -1);
        if (read(faults, &event, sizeof(event)) == sizeof(event)) {
            if (event.event == UFFD_EVENT_REMOVE || event.event == UFFD_EVENT_UNMAP)
                hear((void *)event.arg.remove.start, event.arg.remove.end - event.arg.remove.start);
            if (event.event == UFFD_EVENT_PAGEFAULT) {
                struct uffdio_zeropage zero = {
                    .range = {event.arg.pagefault.address & -PAGE, PAGE}};
                ioctl(faults, UFFDIO_ZEROPAGE, &zero);
            }
        } else if (ready[1].revents && read(asked[0], &asks, 1) == 1 &&
                   write(answered[1], "", 1) != 1) {
            abort();
        }
    }
    return arg;
}

static int monitor_userfaultfd(void)
{
    struct uffdio_api api = {.api = UFFD_API,
                             .features = UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_UNMAP};
    pthread_t thread;

    faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    return faults >= 0 && ioctl(faults, UFFDIO_API, &api) == 0 && pipe(asked) == 0 &&
           pipe(answered) == 0 && pthread_create(&thread, NULL, read_events, NULL) == 0;
}

static void register_block(char *start, size_t size)
{
    const uintptr_t first = ((uintptr_t)start + PAGE - 1) & -PAGE,
                    end = ((uintptr_t)start + size) & -PAGE;
    struct uffdio_register range = {.range = {first, end - first},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};

    if (end > first && ioctl(faults, UFFDIO_REGISTER, &range) != 0)
        abort();
}

/* Waits until all events have been read. */
static void settle(void)
{
    char answer;

    if (faults >= 0 && (write(asked[1], "", 1) != 1 || read(answered[0], &answer, 1) != 1))
        abort();
}

/* The blocks to check, and the pages of which the monitor was notified. */

#define BLOCKS 16
static struct block {
    char *start;
    size_t size;
    int heard_before;
} blocks[BLOCKS];
static unsigned count;
static size_t removed;

static void fill(size_t size)
{
    struct block *const block = &blocks[count++];

    *block = (struct block){.start = malloc(size), .size = size, .heard_before = heard_count};
    memset(block->start, 1, size);
    if (faults >= 0)
        register_block(block->start, size);
}

static void free_all(void)
{
    for (unsigned i = 0; i < count; i++)
        free(blocks[i].start);
}

static int was_heard(const char *page, int since)
{
    for (int i = since; i < heard_count && i < HEARD_MAX; i++)
        if (page >= heard[i].start && page < heard[i].end)
            return 1;
    return 0;
}

/* Finds which of these pages are present. The range may span several mappings. */
static void look(char *first, size_t pages, unsigned char *ret_present)
{
    if (mincore(first, pages * PAGE, ret_present) != 0)
        for (size_t i = 0; i < pages; i++)
            if (mincore(first + i * PAGE, PAGE, ret_present + i) != 0)
                ret_present[i] = 0;
}

/* Returns whether the monitor was notified of each page that is no longer present. */
static int check(void)
{
    enum { SOME = 512 };
    unsigned char present[SOME];

    for (unsigned i = 0; i < count; i++) {
        char *const first = (char *)(((uintptr_t)blocks[i].start + PAGE - 1) & -PAGE);
        const size_t pages = (size_t)(blocks[i].start + blocks[i].size - first) / PAGE;
        for (size_t at = 0; first < blocks[i].start + blocks[i].size && at < pages; at++) {
            const char *const page = first + at * PAGE;
            if (at % SOME == 0)
                look(first + at * PAGE, pages - at < SOME ? pages - at : SOME, present);
            if (present[at % SOME] & 1)
                continue;
            removed++;
            if (!was_heard(page, blocks[i].heard_before)) {
                printf("a page of block %u of %zu bytes went away unheard\n", i, blocks[i].size);
                return 1;
            }
        }
    }
    return 0;
}

static void clear_reused(void) /* calloc of a block that was just freed */
{
    fill((size_t)48 << 20);
    free_all();
    char *volatile again = calloc(1, (size_t)48 << 20);
    again[0] = 1;
}

static void trim(void)
{
    for (int i = 0; i < 13; i++)
        fill((size_t)1024 << i);
    free_all();
    malloc_trim(0);
}

static void release(void) /* the setting of MALLOC_CONF decides whether pages go away at once */
{
    for (int i = 0; i < 16; i++)
        fill((size_t)65536 << i % 8);
    free_all();
}

static void shrink(void)
{
    for (int i = 0; i < 3; i++)
        fill((size_t)8 << 20);
    for (int i = 0; i < 3; i++)
        blocks[i].start = realloc(blocks[i].start, 5 << 20);
    malloc_trim(0);
}

static void *churn(void *arg)
{
    static const size_t sizes[] = {16, 200, 3000, 20000, 70000, 300000, 1 << 20, 2 << 20};
    void **kept[64] = {0};
    unsigned seed = (unsigned)(size_t)arg;

    for (int i = 0; i < 2000; i++) {
        seed = seed * 1103515245 + 12345;
        void ***const at = &kept[seed / 65536 % 64];
        if (*at && (*at)[0] != (void *)*at)
            abort();
        free(*at);
        *at = i % 5 ? malloc(sizes[seed / 4096 % 8]) : calloc(1, sizes[seed / 4096 % 8]);
        (*at)[0] = *at;
    }
    return NULL;
}

static void callbacks(void) /* the monitor's callback allocates and frees, on each thread */
{
    const int before = heard_count;
    pthread_t thread[4];

    allocates = 1;
    for (size_t i = 0; i < 4; i++)
        pthread_create(&thread[i], NULL, churn, (void *)(i + 1));
    churn((void *)9);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    removed = (size_t)(heard_count - before);
}

static void use_driver(void)
{
    void *const driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*const init)(unsigned) = driver ? dlsym(driver, "cuInit") : NULL;
    int (*const retain)(void **, int) = driver ? dlsym(driver, "cuDevicePrimaryCtxRetain") : NULL;
    int (*const set)(void *) = driver ? dlsym(driver, "cuCtxSetCurrent") : NULL;
    void *context;

    if (!init || init(0) || retain(&context, 0) || set(context))
        puts("no driver");
}

static const struct {
    const char *name;
    int (*run)(void);
} monitors[] = {
    {"ucm", monitor_ucm},           {"openmpi", monitor_openmpi},
    {"tables", monitor_tables},     {"userfaultfd", monitor_userfaultfd},
#ifdef MEMHOOKS
    {"memhooks", monitor_memhooks},
#endif
};
static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {{"calloc", clear_reused},
             {"trim", trim},
             {"free", release},
             {"shrink", shrink},
             {"callbacks", callbacks}};

int main(int argc, char **argv)
{
    alarm(60);
    if (argc > 3)
        use_driver();
    for (size_t i = 0; i < sizeof(monitors) / sizeof(*monitors); i++)
        if (strcmp(argv[1], monitors[i].name) == 0 && !monitors[i].run())
            return puts("no monitor"), 2;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        if (strcmp(argv[2], cases[i].name) == 0)
            cases[i].run();
    settle();
    const int failed = check();
    if (getenv("SHOW"))
        printf("%zu pages went away, %d events\n", removed, heard_count);
    return failed || (!removed && getenv("REMOVES")) ? puts("nothing went away"), 1 : 0;
}
