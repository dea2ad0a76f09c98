/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loader.h"

#include <fcntl.h>
#include <sys/auxv.h>

#define VERSION_MASK 0x7fff
#define VERSION_HIDDEN 0x8000 /* not the default version */
/* Version 0 marks local symbols; version 1 is the name of the object itself. */
#define FIRST_VERSION 2

/*
 * Returns the address that an entry of the dynamic section refers to. glibc replaces the offsets in
 * a dynamic section by addresses. In the vDSO, and with musl, the entries remain offsets.
 */
static const void *table(const struct gf_object *object, ElfW(Addr) value)
{
    return (const void *)(value < object->base ? value + object->base : value);
}

bool gf_object_read(uintptr_t base, const ElfW(Dyn) * dynamic, struct gf_object *ret)
{
    const ElfW(Dyn) *soname = NULL;

    *ret = (struct gf_object){.base = base, .soname = ""};
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        const void *at = table(ret, dynamic->d_un.d_ptr);
        if (dynamic->d_tag == DT_SYMTAB)
            ret->symbols = at;
        else if (dynamic->d_tag == DT_STRTAB)
            ret->strings = at;
        else if (dynamic->d_tag == DT_GNU_HASH)
            ret->gnu_hash = at;
        else if (dynamic->d_tag == DT_HASH)
            ret->hash = at;
        else if (dynamic->d_tag == DT_VERSYM)
            ret->versions = at;
        else if (dynamic->d_tag == DT_VERDEF)
            ret->defined = at;
        else if (dynamic->d_tag == DT_VERNEED)
            ret->needed = at;
        else if (dynamic->d_tag == DT_JMPREL)
            ret->calls = at;
        else if (dynamic->d_tag == DT_PLTRELSZ)
            ret->calls_size = dynamic->d_un.d_val;
        else if (dynamic->d_tag == DT_BIND_NOW ||
                 (dynamic->d_tag == DT_FLAGS && dynamic->d_un.d_val & DF_BIND_NOW) ||
                 (dynamic->d_tag == DT_FLAGS_1 && dynamic->d_un.d_val & DF_1_NOW))
            ret->now = true;
        else if (dynamic->d_tag == DT_SONAME)
            soname = dynamic;
    }
    if (soname && ret->strings)
        ret->soname = ret->strings + soname->d_un.d_val;
    return ret->symbols && ret->strings;
}

/*
 * Used instead of strcmp. A sanitizer that is linked into the program exports its own strcmp. This
 * strcmp jumps to address 0 until the sanitizer has found libc's strcmp by dlsym. But the hook of
 * dlsym runs this code.
 */
bool gf_object_names_equal(const char *a, const char *b)
{
    for (; *a == *b; a++, b++)
        if (!*a)
            return true;
    return false;
}

static bool matches(const struct gf_object *object, uint32_t index, const char *name,
                    unsigned version)
{
    const ElfW(Sym) *symbol = &object->symbols[index];
    const unsigned here = object->versions ? object->versions[index] : 0;

    return symbol->st_shndx != SHN_UNDEF && symbol->st_value &&
           (version == GF_ANY_VERSION ||
            (version ? (here & VERSION_MASK) == version : !(here & VERSION_HIDDEN))) &&
           gf_object_names_equal(object->strings + symbol->st_name, name);
}

static const ElfW(Sym) *
    find_by_gnu_hash(const struct gf_object *object, const char *name, unsigned version)
{
    const uint32_t *table = object->gnu_hash;
    const uint32_t buckets = table[0], first = table[1], words = table[2];
    const uint32_t *bucket = table + 4 + words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chain = bucket + buckets;
    uint32_t hash = 5381;

    for (const char *p = name; *p; p++)
        hash = hash * 33 + (unsigned char)*p;
    uint32_t index = buckets ? bucket[hash % buckets] : 0;
    if (index < first)
        return NULL;
    for (;; index++) {
        const uint32_t here = chain[index - first];
        if ((here | 1) == (hash | 1) && matches(object, index, name, version))
            return &object->symbols[index];
        if (here & 1)
            return NULL;
    }
}

static const ElfW(Sym) *
    find_by_hash(const struct gf_object *object, const char *name, unsigned version)
{
    const uint32_t symbols = object->hash[1];

    for (uint32_t index = 1; index < symbols; index++)
        if (matches(object, index, name, version))
            return &object->symbols[index];
    return NULL;
}

const ElfW(Sym) * gf_object_find(const struct gf_object *object, const char *name, unsigned version)
{
    return object->gnu_hash ? find_by_gnu_hash(object, name, version)
           : object->hash   ? find_by_hash(object, name, version)
                            : NULL;
}

/*
 * Returns NULL for an indirect function (IFUNC), because its resolver must not run before its
 * object is relocated.
 */
const ElfW(Sym) *
    gf_object_function(const struct gf_object *object, const char *name, unsigned version)
{
    const ElfW(Sym) *symbol = gf_object_find(object, name, version);
    const unsigned type = symbol ? symbol->st_info & 0xf : STT_OBJECT;

    return type == STT_FUNC || type == STT_NOTYPE ? symbol : NULL;
}

unsigned gf_object_version(const struct gf_object *object, uint32_t hash)
{
    const ElfW(Verdef) *at = object->defined;

    while (at) {
        if (at->vd_hash == hash && at->vd_ndx >= FIRST_VERSION)
            return at->vd_ndx;
        at = at->vd_next ? (const void *)((const char *)at + at->vd_next) : NULL;
    }
    return 0;
}

/*
 * System calls without libc, for code that runs before the loader has relocated the library. They
 * return -errno and do not change errno. The arguments after the third are 0.
 */

#if defined(__x86_64__)
static inline long gf_raw_syscall(long number, long a, long b, long c)
{
    register long r10 __asm__("r10") = 0, r8 __asm__("r8") = 0;
    long ret;

    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return ret;
}
#elif defined(__aarch64__)
static inline long gf_raw_syscall(long number, long a, long b, long c)
{
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c, x3 __asm__("x3") = 0, x4 __asm__("x4") = 0;

    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
    return x0;
}
#else
#error "no system calls for this processor"
#endif

#define SONAME "libc.so.6"
#define GET_AUXV 0x41555856 /* PR_GET_AUXV of prctl, since Linux 6.4 */
#define VERSIONS 32         /* largest supported number of symbol versions */
#define AUXILIARY 64

#if defined(__x86_64__)
#define CALL_RELOCATION R_X86_64_JUMP_SLOT
#elif defined(__aarch64__)
#define CALL_RELOCATION R_AARCH64_JUMP_SLOT
#endif

bool gf_libc_relocated(void)
{
    static const char anchor;
    static const volatile uintptr_t filled_in = (uintptr_t)&anchor;

    return filled_in == (uintptr_t)&anchor;
}

/*
 * Returns the load address of the dynamic loader, from the auxiliary vector. If the loader was
 * started as a program, AT_BASE is 0. Then the address is computed from AT_PHDR, the address of the
 * loader's program headers.
 */
static uintptr_t early_loader(void)
{
    static const char path[] = "/proc/self/auxv";
    ElfW(auxv_t) table[AUXILIARY];
    uintptr_t base = 0, headers = 0, page = 4096;
    const long fd =
        gf_raw_syscall(SYS_openat, AT_FDCWD, (long)(uintptr_t)path, O_RDONLY | O_CLOEXEC);
    long size = fd < 0 ? fd : gf_raw_syscall(SYS_read, fd, (long)(uintptr_t)table, sizeof(table));

    if (fd >= 0)
        gf_raw_syscall(SYS_close, fd, 0, 0);
    if (size <= 0)
        size = gf_raw_syscall(SYS_prctl, GET_AUXV, (long)(uintptr_t)table, sizeof(table));
    /* The kernel filled the table. NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult) */
    for (long i = 0; (i + 1) * (long)sizeof(table[0]) <= size && table[i].a_type != AT_NULL; i++) {
        if (table[i].a_type == AT_BASE)
            base = table[i].a_un.a_val;
        else if (table[i].a_type == AT_PHDR)
            headers = table[i].a_un.a_val;
        else if (table[i].a_type == AT_PAGESZ)
            page = table[i].a_un.a_val;
    }
    return base ? base : headers & -page;
}

static const struct link_map *early_objects(void)
{
    const uintptr_t base = early_loader();
    const ElfW(Ehdr) *header = (const void *)base;
    const ElfW(Dyn) *dynamic = NULL;
    struct gf_object loader;

    if (!base)
        return NULL;
    const ElfW(Phdr) *segment = (const void *)(base + header->e_phoff);
    for (unsigned i = 0; i < header->e_phnum; i++)
        if (segment[i].p_type == PT_DYNAMIC)
            dynamic = (const void *)(base + segment[i].p_vaddr);
    const ElfW(Sym) *symbol =
        gf_object_read(base, dynamic, &loader) ? gf_object_find(&loader, "_r_debug", 0) : NULL;
    return symbol ? ((const struct r_debug *)(base + symbol->st_value))->r_map : NULL;
}

/*
 * The symbol is weak, because the loader defines it, and this library must not depend on any
 * library except libc.
 */
#pragma weak _r_debug

/* The loader's list of objects, in search order. */
static const struct link_map *objects(void)
{
    if (!gf_libc_relocated())
        return early_objects();
    return &_r_debug ? _r_debug.r_map : NULL;
}

/* The start of this library in memory. The linker defines this symbol. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

/*
 * Returns the entry of this library in the loader's list. Returns NULL if this library is in
 * another link namespace, because the list contains only objects of the first namespace.
 */
static const struct link_map *own(void)
{
    const struct link_map *at = objects();

    while (at && at->l_addr != (uintptr_t)__ehdr_start)
        at = at->l_next;
    return at;
}

bool gf_libc_find(struct gf_object *ret)
{
    for (const struct link_map *at = objects(); at; at = at->l_next)
        if (gf_object_read(at->l_addr, at->l_ld, ret) && gf_object_names_equal(ret->soname, SONAME))
            return true;
    return false;
}

uintptr_t gf_libc_base(void)
{
    struct gf_object libc;

    return gf_libc_find(&libc) ? libc.base : 0;
}

void *gf_libc_function(const char *name)
{
    struct gf_object libc;
    const ElfW(Sym) *found = gf_libc_find(&libc) ? gf_object_function(&libc, name, 0) : NULL;

    return found ? (void *)(libc.base + found->st_value) : NULL;
}

/*
 * The same if libc follows this library, as it does unless this library was opened by dlopen. The objects
 * after libc may be unloaded at any time, so the walk ends at libc. Stores the entry, because the walk
 * reads each object; all threads store the same entry.
 */
static const struct link_map *own_at_start(void)
{
    static const struct link_map *kept;
    const struct link_map *at = __atomic_load_n(&kept, __ATOMIC_RELAXED);
    struct gf_object object;

    if (at)
        return at;
    for (at = objects(); at && at->l_addr != (uintptr_t)__ehdr_start; at = at->l_next)
        if (gf_object_read(at->l_addr, at->l_ld, &object) &&
            gf_object_names_equal(object.soname, SONAME))
            return NULL;
    __atomic_store_n(&kept, at, __ATOMIC_RELAXED);
    return at;
}

/* Returns the first definition of a function, from `at` on up to libc. */
static void *first_definition(const struct link_map *at, const char *name)
{
    struct gf_object object = {.soname = ""};

    for (; at && !gf_object_names_equal(object.soname, SONAME); at = at->l_next) {
        const ElfW(Sym) *symbol = gf_object_read(at->l_addr, at->l_ld, &object)
                                      ? gf_object_function(&object, name, 0)
                                      : NULL;
        if (symbol)
            return (void *)(object.base + symbol->st_value);
    }
    return NULL;
}

void *gf_libc_first(const char *name)
{
    return first_definition(objects(), name);
}

void *gf_libc_early_next(const char *name)
{
    const struct link_map *const self = own_at_start();

    return self ? first_definition(self->l_next, name) : NULL;
}

int gf_libc_defined_before(const char *name, const char *other)
{
    const struct link_map *const end = own_at_start();
    struct gf_object object;

    for (const struct link_map *at = objects(); end && at != end; at = at->l_next)
        if (gf_object_read(at->l_addr, at->l_ld, &object) && gf_object_function(&object, name, 0) &&
            gf_object_function(&object, other, 0))
            return 1;
    return end ? 0 : -1;
}

/*
 * For each symbol version that this library needs: stores libc's number of the version at the index
 * that is this library's number of the version.
 */
static void match_versions(const struct gf_object *self, const struct gf_object *libc,
                           unsigned ret[VERSIONS])
{
    const ElfW(Verneed) *file = self->needed;

    for (unsigned i = 0; i < VERSIONS; i++)
        ret[i] = 0;
    while (file) {
        const ElfW(Vernaux) *at = (const void *)((const char *)file + file->vn_aux);
        for (unsigned i = 0; i < file->vn_cnt; i++) {
            if (at->vna_other < VERSIONS)
                ret[at->vna_other] = gf_object_version(libc, at->vna_hash);
            at = (const void *)((const char *)at + at->vna_next);
        }
        file = file->vn_next ? (const void *)((const char *)file + file->vn_next) : NULL;
    }
}

static unsigned long read_auxv(const struct gf_object *libc, unsigned long type)
{
    const ElfW(Sym) *found = gf_object_function(libc, "getauxval", 0);

    return found ? ((__typeof__(getauxval) *)(libc->base + found->st_value))(type) : 0;
}

static uintptr_t address_of(const struct gf_object *libc, const ElfW(Sym) * symbol)
{
    const uintptr_t address = libc->base + symbol->st_value;

    if ((symbol->st_info & 0xf) != STT_GNU_IFUNC)
        return address;
#if defined(__aarch64__)
    const uint64_t of_cpu[3] = {sizeof(of_cpu), read_auxv(libc, AT_HWCAP),
                                read_auxv(libc, AT_HWCAP2)};
    return ((uintptr_t(*)(uint64_t, const void *))address)(of_cpu[1] | UINT64_C(1) << 62, of_cpu);
#else
    return ((uintptr_t(*)(void))address)();
#endif
}

/*
 * This library exports munmap, but its own calls are bound to libc: the heap calls munmap under
 * locks, where the hook must not run.
 */
#define BOUND_EXPORT "munmap"

/*
 * Binds one call to libc's address. If the call names no version, the symbol's default version is
 * used.
 */
static void bind_call(const struct gf_object *self, const struct gf_object *libc,
                      const unsigned versions[VERSIONS], const ElfW(Rela) * call)
{
    const size_t index = ELF64_R_SYM(call->r_info);
    const ElfW(Sym) *wanted = &self->symbols[index];
    const char *const name = self->strings + wanted->st_name;
    const unsigned version = self->versions ? self->versions[index] & 0x7fff : 0;

    if (ELF64_R_TYPE(call->r_info) != CALL_RELOCATION ||
        (wanted->st_shndx != SHN_UNDEF && !gf_object_names_equal(name, BOUND_EXPORT)))
        return;
    const ElfW(Sym) *found = gf_object_find(libc, name, version < VERSIONS ? versions[version] : 0);
    const uintptr_t address = found ? address_of(libc, found) : 0;
    if (address)
        __atomic_store_n((uintptr_t *)(self->base + call->r_offset), address, __ATOMIC_RELAXED);
}

/*
 * Changes the protection of the table of call addresses. If this library is linked with -z now, the
 * loader has made the table read-only.
 */
static bool protect(const struct gf_object *self, const struct gf_object *libc, int protection)
{
    const ElfW(Ehdr) *header = (const void *)__ehdr_start;
    const ElfW(Phdr) *segment = (const void *)(__ehdr_start + header->e_phoff);
    const uintptr_t page = self->now ? read_auxv(libc, AT_PAGESZ) : 1;
    bool done = page > 0;

    for (unsigned i = 0; self->now && done && i < header->e_phnum; i++) {
        const uintptr_t start = (self->base + segment[i].p_vaddr) & -page;
        const uintptr_t end = (self->base + segment[i].p_vaddr + segment[i].p_memsz) & -page;
        if (segment[i].p_type == PT_GNU_RELRO && end > start)
            done = gf_raw_syscall(SYS_mprotect, (long)start, (long)(end - start), protection) == 0;
    }
    return done;
}

static void bind_calls(const struct link_map *map)
{
    struct gf_object self, libc;
    unsigned versions[VERSIONS];

    if (!gf_object_read(map->l_addr, map->l_ld, &self) || !gf_libc_find(&libc) ||
        !protect(&self, &libc, PROT_READ | PROT_WRITE))
        return;
    match_versions(&self, &libc, versions);
    for (size_t i = 0; i < self.calls_size / sizeof(*self.calls); i++)
        bind_call(&self, &libc, versions, &self.calls[i]);
    protect(&self, &libc, PROT_READ);
}

void gf_libc_bind(void)
{
    static bool bound; /* threads that bind the calls at the same time store the same addresses */
    const struct link_map *map;

    if (gf_likely(__atomic_load_n(&bound, __ATOMIC_ACQUIRE)) || !gf_libc_relocated())
        return;
    map = own();
    if (map && map->l_name[0]) /* the name is empty if this code is part of the program */
        bind_calls(map);
    __atomic_store_n(&bound, true, __ATOMIC_RELEASE);
}
