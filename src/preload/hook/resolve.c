/* SPDX-License-Identifier: Apache-2.0 */
/* Dlsym, cuGetProcAddress (resolve_<arch>.S). */
#include "base/atomic.h"
#include "base/base.h"
#include "config/startup_env.h"
#include "preload/attach/counters.h"
#include "preload/attach/driver.h"
#include "preload/attach/originals.h"
#include "preload/hook/driver_call.h"
#include "preload/malloc/libc_names.h"
#include "preload/malloc/start.h"
#include "preload/trace/unwind.h"

#include <dlfcn.h>

/*
 * Maps each function of the driver to its hook. The key is the function's address, never its name,
 * because a table by name and version could return a hook with another ABI.
 *
 * The file also contains the hooks of cuGetProcAddress in its three exported forms, which use this
 * table.
 */

static const struct hooked {
    const char *symbol;
    void *hook;
    size_t offset; /* offset of the driver's function in struct gf_cuda */
    bool submits;  /* hooked only for GPU time, and for copies that hold their stream */
} hooked[] = {
#define GF_CU(symbol) {#symbol, (void *)gf_on_##symbol, offsetof(struct gf_cuda, symbol), false},
#define GF_CU_SUBMIT(symbol)                                                                       \
    {#symbol, (void *)gf_on_##symbol, offsetof(struct gf_cuda, symbol), true},
#include "abi/hooks.def"
};

static bool ends_in(const char *symbol, size_t length, const char *end)
{
    return length > strlen(end) && memcmp(symbol + length - strlen(end), end, strlen(end)) == 0;
}

/*
 * Returns the length of the part of a function's name that determines its parameters. For example,
 * cuMemAllocAsync_ptsz differs from cuMemAllocAsync only in the default stream, and cuCtxDestroy_v2
 * differs from cuCtxDestroy only in its effects on other threads.
 */
static size_t stem_length(const char *symbol)
{
    static const char *const alike[] = {"cuStreamDestroy_v2", "cuCtxDestroy_v2",
                                        "cuDevicePrimaryCtxRelease_v2",
                                        "cuDevicePrimaryCtxReset_v2", "cuMemHostRegister_v2"};
    const size_t length = strlen(symbol);

    if (ends_in(symbol, length, "_ptsz") || ends_in(symbol, length, "_ptds"))
        return length - 5;
    for (size_t i = 0; i < GF_ARRAY_LEN(alike); i++)
        if (strcmp(symbol, alike[i]) == 0)
            return length - 3;
    return length;
}

static bool have_same_stem(const struct hooked *a, const struct hooked *b)
{
    const size_t length = stem_length(a->symbol);
    return length == stem_length(b->symbol) && memcmp(a->symbol, b->symbol, length) == 0;
}

static bool needs_submissions(void)
{
    const struct gf_options *options = gf_startup_env_options();
    return options->gpu_time || (options->stage != gf_stage_off && options->mode == gf_mode_on);
}

/*
 * Returns the hook of the driver's function at `address`, or NULL. driver may be NULL. May be called
 * on any thread. Several functions may have the same address. If they have the same parameters, the
 * address gets the hook of the first of them. Otherwise the address gets no hook: it is the function
 * that returns an error in place of all that the driver lacks.
 */
static void *gf_hook_table_find(const struct gf_driver *driver, const void *address)
{
    const struct hooked *found = NULL;

    /* Addresses in the libcuda behind a shim get no hook, because only the shim calls them. */
    if (!driver || (uintptr_t)address - driver->start >= driver->end - driver->start)
        return NULL;
    for (size_t i = 0; i < GF_ARRAY_LEN(hooked); i++) {
        if (*(void *const *)((const char *)&driver->functions + hooked[i].offset) != address)
            continue;
        if (found && !have_same_stem(found, &hooked[i]))
            return NULL;
        if (!found)
            found = &hooked[i];
    }
    return found && (!found->submits || needs_submissions()) ? found->hook : NULL;
}

/* Whether an address is one of the hooks. May be called on any thread. */
static bool gf_hook_table_contains(const void *address)
{
    for (size_t i = 0; i < GF_ARRAY_LEN(hooked); i++)
        if (hooked[i].hook == address)
            return true;
    return false;
}

/* NCCL usually contains a static CUDA runtime, so its own code looks up its launches. */
static void see_caller(const void *caller)
{
    uintptr_t start;
    size_t size;

    if (gf_load_relaxed(&gf_communication.size) ||
        !gf_unwind_is_in(caller, "libnccl.so", &start, &size))
        return;
    gf_store_relaxed(&gf_communication.start, start);
    gf_store_release(&gf_communication.size, size);
}

/*
 * Called after the driver has looked up the caller's name, version and flags, so a function that
 * the driver lacks stays missing. The address that the driver returned selects the hook.
 */
static CUresult substitute_hook(CUresult result, void **pfn, const void *caller)
{
    if (result != CUDA_SUCCESS || !pfn || !*pfn || gf_thread.in_driver ||
        gf_duplicate_load_passes())
        return result;
    void *hook = gf_hook_table_find(gf_driver(), *pfn);
    if (hook) {
        *pfn = hook;
        see_caller(caller);
    }
    return result;
}

GF_HOOK(cuGetProcAddress, (const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags),
        substitute_hook(real(symbol, pfn, cudaVersion, flags), pfn, __builtin_return_address(0)));

#define RESOLVER(name)                                                                             \
    GF_HOOK(name,                                                                                  \
            (const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,                    \
             CUdriverProcAddressQueryResult *symbolStatus),                                        \
            substitute_hook(real(symbol, pfn, cudaVersion, flags, symbolStatus), pfn,              \
                            __builtin_return_address(0)))

RESOLVER(cuGetProcAddress_v2);
RESOLVER(cuGetProcAddress_v2_ptsz);

/*
 * The hooks of dlsym, dlvsym, dlopen and dlmopen. They are written in assembly (resolve_<arch>.S), so
 * that they can jump to the original, because glibc identifies the caller by the return address. If
 * the hooks called the original, RTLD_NEXT and RTLD_DEFAULT would be relative to this library, and
 * dlopen would search this library's RUNPATH. C cannot guarantee a jump: at -O0, a sibling call
 * becomes a call. resolve_<arch>.S uses the variables and functions below.
 */

/* The originals. NULL until gf_jump_prepare_dlsym and gf_jump_prepare_dlopen have set them. */
extern _Atomic(__typeof__(dlsym) *) gf_jump_dlsym;
extern _Atomic(__typeof__(dlvsym) *) gf_jump_dlvsym;
extern _Atomic(__typeof__(dlopen) *) gf_jump_dlopen;
extern _Atomic(__typeof__(dlmopen) *) gf_jump_dlmopen;
/*
 * A mask for the argument mode of dlopen, and of dlmopen with LM_ID_BASE. It removes RTLD_DEEPBIND if
 * that flag would lead to two heaps (docs/hooks.md).
 */
extern _Atomic int gf_jump_dlopen_mask;

void gf_jump_prepare_dlsym(void);
void gf_jump_prepare_dlopen(void);

/*
 * Called before a lookup with RTLD_NEXT. If the name is that of a function of the malloc family,
 * first sets libc's symbol to the function that serves malloc (libc_names.h). Otherwise a library
 * that looks up the next malloc and calls it would mix two heaps.
 */
void gf_jump_before_next(void *handle, const char *name);

struct gf_jump_answer {
    void *address;
    /* 0: do not return `address`, but jump to the original with the caller's own arguments. */
    uintptr_t is_final;
};

/*
 * Called for names that begin with "cu" and a capital letter, with any handle except RTLD_NEXT.
 * Returns the hook of the function that the original finds. Afterwards dlerror returns the same
 * text as without this library; only if libcuda is not loaded, the text may name this library.
 */
struct gf_jump_answer gf_jump_answer(void *handle, const char *name);

_Atomic(__typeof__(dlsym) *) gf_jump_dlsym;
_Atomic(__typeof__(dlvsym) *) gf_jump_dlvsym;
_Atomic(__typeof__(dlopen) *) gf_jump_dlopen;
_Atomic(__typeof__(dlmopen) *) gf_jump_dlmopen;
_Atomic int gf_jump_dlopen_mask = ~0;

void gf_jump_prepare_dlsym(void)
{
    gf_store_release(&gf_jump_dlsym, gf_originals()->dlsym);
    gf_store_release(&gf_jump_dlvsym, gf_originals()->dlvsym);
}

void gf_jump_before_next(void *handle, const char *name)
{
    (void)handle;
    if (gf_libc_names_contain(name) && gf_start_loaded())
        gf_libc_names_prepare();
}

void gf_jump_prepare_dlopen(void)
{
    /* Not only if it fails: a handler may have interrupted this call, and stored what holds meanwhile. */
    gf_store_relaxed(&gf_jump_dlopen_mask, gf_libc_names_prepare() ? ~0 : ~RTLD_DEEPBIND);
    gf_store_release(&gf_jump_dlopen, gf_originals()->dlopen);
    gf_store_release(&gf_jump_dlmopen, gf_originals()->dlmopen);
}

/*
 * A program may search the global scope to learn whether CUDA is present. That scope contains this
 * library's exports even if no libcuda is loaded. So the program gets the answer that it would get
 * without this library: the next definition after this library, or NULL.
 */
static struct gf_jump_answer answer_global(const char *name)
{
    if (gf_driver_functions())
        return (struct gf_jump_answer){0};
    return (struct gf_jump_answer){gf_originals()->dlsym(RTLD_NEXT, name), 1};
}

/*
 * The program opened libcuda, but got a handle of this library (driver.h). So the name is
 * looked up after this library, in the shim.
 */
static struct gf_jump_answer answer_for_shim(const char *name)
{
    void *found = gf_originals()->dlsym(RTLD_NEXT, name);
    void *hook = NULL;
    if (!gf_thread.in_driver && !gf_duplicate_load_passes())
        hook = gf_hook_table_find(gf_driver_by_address(found), found);
    return (struct gf_jump_answer){hook ? hook : found, 1};
}

struct gf_jump_answer gf_jump_answer(void *handle, const char *name)
{
    struct gf_jump_answer answer = {0};
    void *found = gf_originals()->dlsym(handle, name);

    if ((!found || (gf_driver_shim() && gf_hook_table_contains(found))) &&
        gf_driver_shim_is_own_handle(handle))
        return answer_for_shim(name);
    /* Lookups by the driver get the original's result. */
    if (!found || gf_thread.in_driver)
        return answer;
    if (gf_hook_table_contains(found))
        return answer_global(name);
    if (handle == RTLD_DEFAULT || gf_duplicate_load_passes())
        return answer;
    gf_count(gf_hook_dlsym);
    answer.address = gf_hook_table_find(gf_driver_by_address(found), found);
    answer.is_final = answer.address != NULL;
    return answer;
}
