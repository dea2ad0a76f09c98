/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The results of the malloc family, one line for each case, to compare allocators. Compiled without
 * the compiler's built-in versions of these functions, so that every call is made.
 */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void __libc_free(void *);
void *__libc_memalign(size_t, size_t);
void *__libc_valloc(size_t);
void *__libc_pvalloc(size_t);

static const size_t huge = SIZE_MAX / 2; /* one above PTRDIFF_MAX - 1: PTRDIFF_MAX itself */
static volatile size_t zero;
static int mark;

static void say(const char *name, const void *block)
{
    printf("%s: %s errno %d\n", name, block ? "block" : "NULL", errno);
    errno = 77;
}

static void say_int(const char *name, long value)
{
    printf("%s: %ld errno %d\n", name, value, errno);
    errno = 77;
}

static int aligned(const void *block, size_t alignment)
{
    return block && (uintptr_t)block % alignment == 0;
}

static void too_large(void)
{
    const size_t sizes[] = {huge + 1, huge + 2, SIZE_MAX, SIZE_MAX - 16, SIZE_MAX - 4096};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char *kept = malloc(10);
        strcpy(kept, "kept");
        errno = 77;
        say("malloc too large", malloc(sizes[i]));
        say("calloc too large", calloc(1, sizes[i]));
        say("realloc too large", realloc(kept, sizes[i]));
        say("realloc NULL too large", realloc(NULL, sizes[i]));
        say("reallocarray too large", reallocarray(kept, sizes[i], 2));
        say("aligned_alloc too large", aligned_alloc(64, sizes[i]));
        say("memalign too large", memalign(64, sizes[i]));
        say("valloc too large", valloc(sizes[i]));
        say("pvalloc too large", pvalloc(sizes[i]));
        void *untouched = &mark;
        errno = 77;
        const int rc = posix_memalign(&untouched, 64, sizes[i]);
        printf("posix_memalign too large: %d errno %d, pointer %s\n", rc, errno,
               untouched == &mark ? "untouched" : "changed");
        errno = 77;
        printf("realloc too large keeps: %s\n", kept);
        free(kept);
    }
    say("calloc overflow", calloc(SIZE_MAX / 2, 4));
    say("calloc overflow 2", calloc((size_t)1 << 33, (size_t)1 << 33));
    say("reallocarray overflow", reallocarray(NULL, SIZE_MAX / 2, 4));
}

static void alignments(void)
{
    int good = 1;
    for (size_t size = 0; size < 5000; size += size < 100 ? 1 : 97) {
        void *a = malloc(size), *b = calloc(1, size), *c = realloc(NULL, size), *d;
        void *e = realloc(malloc(300), size ? size : 1);
        good &= aligned(a, 16) && aligned(b, 16) && aligned(c, 16) && aligned(e, 16);
        good &= posix_memalign(&d, 8, size) == 0 && aligned(d, 8);
        good &= malloc_usable_size(a) >= size && malloc_usable_size(b) >= size;
        memset(a, 1, malloc_usable_size(a));
        free(a), free(b), free(c), free(d), free(e);
    }
    say_int("malloc, calloc, realloc are aligned to 16", good);
    for (size_t alignment = 1; alignment <= (size_t)1 << 21; alignment <<= 1) {
        void *a = memalign(alignment, 100), *b = aligned_alloc(alignment, 100), *c = NULL;
        const int rc = posix_memalign(&c, alignment, 100);
        printf("alignment %zu: memalign %d aligned_alloc %d posix_memalign %d %d\n", alignment,
               aligned(a, alignment), aligned(b, alignment), rc, rc || aligned(c, alignment));
        free(a), free(b), free(c);
    }
    errno = 77;
    void *odd = memalign(24, 100);
    say("memalign 24", odd);
    say_int("memalign 24 is aligned to 32", aligned(odd, 32));
    free(odd);
    say("memalign 0", memalign(zero, 100));
    say("memalign 2^63", memalign((SIZE_MAX >> 1) + 1, 1));
    say("memalign 2^63+1", memalign((SIZE_MAX >> 1) + 2, 1));
    say("aligned_alloc 64, 100", aligned_alloc(64, 100));
    say("aligned_alloc 24, 48", aligned_alloc(24, 48));
    say("aligned_alloc 0, 48", aligned_alloc(zero, 48));
    say("aligned_alloc 2^63+1, 48", aligned_alloc((SIZE_MAX >> 1) + 2, 48));
    void *untouched = &mark;
    const size_t bad[] = {0, 1, 2, 4, 12, 24, SIZE_MAX};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        say_int("posix_memalign bad alignment", posix_memalign(&untouched, bad[i], 8));
    say_int("and pointer untouched", untouched == &mark);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *v = valloc(10), *p = pvalloc(10), *w = valloc(0), *q = pvalloc(0);
    errno = 77;
    say_int("valloc", aligned(v, page));
    say_int("pvalloc", aligned(p, page) && malloc_usable_size(p) >= page);
    say_int("valloc 0, pvalloc 0", aligned(w, page) && aligned(q, page));
    free(v), free(p), free(w), free(q);
}

static void zeros(void)
{
    void *a = malloc(zero), *b = malloc(zero), *c = calloc(zero, 8), *d = calloc(8, zero);
    errno = 77;
    say("malloc 0", a);
    say_int("unique", a != b && c != d && a != c);
    say("realloc NULL 0", realloc(NULL, zero));
    say("realloc a 0", realloc(a, zero));
    say("reallocarray b 0", reallocarray(b, 5, zero));
    free(c), free(d);
    free(NULL);
    say_int("usable size of NULL", (long)malloc_usable_size(NULL));
    say("realloc NULL 10", realloc(NULL, 10));
}

static void calloc_is_zero(void)
{
    int good = 1;
    for (size_t size = 1; size < (size_t)8 << 20; size = size * 2 + 3) {
        for (int round = 0; round < 3; round++) {
            unsigned char *block = calloc(1, size);
            for (size_t i = 0; i < size; i++)
                good &= block[i] == 0;
            memset(block, 0xff, size);
            free(block);
        }
    }
    say_int("calloc is zero", good);
}

static void realloc_keeps(void)
{
    int good = 1;
    for (size_t from = 1; from < (size_t)4 << 20; from = from * 3 + 1) {
        for (size_t to = 1; to < (size_t)4 << 20; to = to * 5 + 2) {
            unsigned char *block = from % 2 ? malloc(from) : aligned_alloc(256, from);
            for (size_t i = 0; i < from; i++)
                block[i] = (unsigned char)(i * 7);
            block = realloc(block, to);
            for (size_t i = 0; i < from && i < to; i++)
                good &= block[i] == (unsigned char)(i * 7);
            memset(block, 3, to);
            free(block);
        }
    }
    say_int("realloc keeps", good);
}

static void errno_is_kept(void)
{
    int good = 1;
    static void *blocks[2000];
    for (size_t size = 8; size < (size_t)128 << 20; size *= 4) {
        const size_t count = size < 1 << 20 ? 2000 : 3;
        for (size_t i = 0; i < count; i++) {
            blocks[i] = malloc(size);
            if (size > 1 << 20)
                memset(blocks[i], 1, size);
        }
        for (size_t i = 0; i < count; i++) {
            errno = 1234;
            free(blocks[i]);
            good &= errno == 1234;
        }
    }
    errno = 77;
    say_int("free keeps errno", good);
    /* A locked page cannot be freed: madvise fails inside. */
    char *locked = malloc((size_t)16 << 20);
    const int could = mlock(locked, (size_t)16 << 20) == 0;
    errno = 1234;
    free(locked);
    good = errno == 1234;
    malloc_trim(0);
    good &= errno == 1234 || !could;
    errno = 77;
    say_int("free of locked pages keeps errno", good);
}

static void names_of_libc(void)
{
    void *a = __libc_malloc(100), *b = __libc_calloc(3, 100), *c = __libc_realloc(malloc(3), 100);
    void *d = __libc_memalign(64, 100), *e = __libc_valloc(100), *f = __libc_pvalloc(100);
    say_int("__libc names", a && b && c && aligned(d, 64) && e && f);
    free(a), free(b), free(c), free(d), free(e), free(f);
    __libc_free(malloc(10));
    /* Newer libcs no longer allow linking with it. */
    int (*aligner)(void **, size_t, size_t) =
        (int (*)(void **, size_t, size_t))dlsym(RTLD_DEFAULT, "__posix_memalign");
    void *g = NULL;
    if (aligner && aligner(&g, 64, 100) == 0)
        free(g);
    void (*old)(void *) = (void (*)(void *))dlsym(RTLD_DEFAULT, "cfree");
    if (old)
        old(malloc(10));
    void (*sized)(void *, size_t) = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");
    if (sized)
        sized(malloc(64), 64);
    errno = 77;
    say_int("freed", 1);
}

static void libc_allocates(void)
{
    char *text = NULL, *line = NULL;
    size_t size = 0;
    char *copy = strdup("strdup"), *part = strndup("strndup", 4), *path = realpath("/", NULL);
    const int length = asprintf(&text, "%s %s %d", copy, part, 42);
    char two_lines[] = "first\nsecond line\n";
    FILE *stream = fmemopen(two_lines, 18, "r");
    const ssize_t first = getline(&line, &size, stream), second = getline(&line, &size, stream);
    fclose(stream);
    char *memory = NULL;
    size_t written = 0;
    stream = open_memstream(&memory, &written);
    for (int i = 0; i < 10000; i++)
        fprintf(stream, "%d ", i);
    fclose(stream);
    printf("%s %s %s %d %zd %zd %s%zu %s\n", copy, part, text, length, first, second, line, written,
           path);
    free(copy), free(part), free(text), free(line), free(memory), free(path);
    void *cwd = getcwd(NULL, 0);
    errno = 77;
    say("getcwd", cwd);
    free(cwd);
}

static void tuning(void)
{
    say_int("mallopt M_MMAP_THRESHOLD", mallopt(M_MMAP_THRESHOLD, 1 << 20));
    say_int("mallopt M_MMAP_THRESHOLD too large", mallopt(M_MMAP_THRESHOLD, 1 << 30));
    say_int("mallopt M_MXFAST too large", mallopt(M_MXFAST, 1 << 20));
    say_int("mallopt M_ARENA_MAX", mallopt(M_ARENA_MAX, 2));
    say_int("mallopt unknown", mallopt(12345, 2));
    say_int("malloc_info bad option", malloc_info(1, stdout));
    char *xml = NULL;
    size_t size;
    FILE *stream = open_memstream(&xml, &size);
    say_int("malloc_info", malloc_info(0, stream));
    fclose(stream);
    say_int("is xml", strncmp(xml, "<malloc version=\"1\">", 20) == 0 && strstr(xml, "</malloc>"));
    free(xml);
    const struct mallinfo2 before = mallinfo2();
    void *blocks[64];
    for (int i = 0; i < 64; i++)
        blocks[i] = malloc(10000);
    const struct mallinfo2 after = mallinfo2();
    errno = 77;
    say_int("mallinfo2 counts", after.uordblks - before.uordblks >= 640000);
    say_int("mallinfo2 adds up", after.arena == after.uordblks + after.fordblks);
    for (int i = 0; i < 64; i++)
        free(blocks[i]);
    malloc_trim(0);
    say_int("trim twice", malloc_trim(0));
}

static void sizes(void)
{
    for (size_t size = 0; size < 70; size += 7) {
        void *block = malloc(size);
        printf("usable size of %zu: %zu\n", size, malloc_usable_size(block));
        free(block);
    }
}

int main(void)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    errno = 77;
    too_large();
    alignments();
    zeros();
    calloc_is_zero();
    realloc_keeps();
    errno_is_kept();
    names_of_libc();
    libc_allocates();
    tuning();
    sizes();
    return 0;
}
