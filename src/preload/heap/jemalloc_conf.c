/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/jemalloc_conf.h"

#include "base/atomic.h"
#include "base/base.h"
#include "base/fmt.h"
#include "base/symbols.h"
#include "preload/heap/jemalloc.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>

static char ignored[400]; /* longer texts are truncated */

static void keep_ignored(const char *text, size_t length)
{
    const size_t at = strlen(ignored);

    gf_fmt(ignored + at, sizeof(ignored) - at, "%s%.*s", at ? "; " : "", (int)length, text);
}

void gf_conf_keep_message(void *closure, const char *text)
{
    static const char prefix[] = "<jemalloc>: ";

    (void)closure;
    if (strncmp(text, prefix, strlen(prefix)) == 0 && strstr(text, "onf "))
        keep_ignored(text + strlen(prefix), strcspn(text + strlen(prefix), "\n"));
}

const char *gf_conf_ignored(void)
{
    return ignored;
}

static bool is_without_effect(const char *item, size_t length)
{
    static const char *const names[] = {"abort_conf:", "confirm_conf:"};

    for (size_t i = 0; i < GF_ARRAY_LEN(names); i++)
        if (length >= strlen(names[i]) && strncmp(item, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/*
 * Removes the settings without effect, in place, and returns the new length. conf need not be
 * terminated.
 */
static size_t filter_conf(char *conf, size_t length)
{
    size_t kept = 0;

    for (size_t at = 0; at < length;) {
        const char *const comma = memchr(conf + at, ',', length - at);
        const size_t size = comma ? (size_t)(comma - conf) - at : length - at;
        if (!is_without_effect(conf + at, size)) {
            if (kept > 0)
                conf[kept++] = ',';
            memmove(conf + kept, conf + at, size);
            kept += size;
        }
        at += size + 1;
    }
    return kept;
}

/* Returns static memory, because jemalloc uses the text until it has started. */
char *gf_heap_getenv(const char *name)
{
    static char copy[1024];
    const char *const value = secure_getenv(name);
    size_t length = value ? strlen(value) : 0;

    if (!value)
        return NULL;
    if (length >= sizeof(copy)) {
        static const char cut[] = "all text after the first 1023 characters";
        keep_ignored(cut, strlen(cut));
        for (length = sizeof(copy) - 1; length > 0 && value[length] != ','; length--)
            ;
    }
    memcpy(copy, value, length);
    copy[filter_conf(copy, length)] = '\0';
    return copy;
}

ssize_t gf_heap_readlink(const char *path, char *ret, size_t size)
{
    const ssize_t length = readlink(path, ret, size);

    return length > 0 ? (ssize_t)filter_conf(ret, (size_t)length) : length;
}

static const double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;

static uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static double of_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/*
 * Writes x as m * 2^e with m near 1, and uses log m = 2 atanh((m - 1) / (m + 1)). x must not be
 * subnormal.
 */
double gf_heap_log(double x)
{
    if (!(x > 0))
        return x == 0 ? -__builtin_inf() : __builtin_nan("");
    int exponent = (int)(bits_of(x) >> 52) - 1023;
    double m = of_bits((bits_of(x) & ((UINT64_C(1) << 52) - 1)) | (UINT64_C(1023) << 52));
    if (m > 1.41421356237309515) {
        m /= 2;
        exponent++;
    }
    const double s = (m - 1) / (m + 1);
    double sum = 0, power = s;
    for (int k = 1; k < 24; k += 2) {
        sum += power / k;
        power *= s * s;
    }
    return exponent * ln2_high + (2 * sum + exponent * ln2_low);
}

double gf_heap_round(double x)
{
    if (!(x > -0x1p52 && x < 0x1p52))
        return x;
    const double whole = (double)(int64_t)x;
    const double rest = x - whole;
    return rest >= 0.5 ? whole + 1 : rest <= -0.5 ? whole - 1 : whole;
}

/* Uses exp x = 2^k * exp r, where |r| is at most half of ln 2. */
double gf_heap_exp(double x)
{
    if (!(x > -708))
        return x != x ? x : 0;
    if (x > 709)
        return __builtin_inf();
    const double k = gf_heap_round(x / ln2_high);
    const double r = (x - k * ln2_high) - k * ln2_low;
    double sum = 1, term = 1;
    for (int n = 1; n < 16; n++) {
        term *= r / n;
        sum += term;
    }
    return sum * of_bits((uint64_t)(1023 + (int64_t)k) << 52);
}

static __typeof__(_Unwind_Backtrace) *_Atomic backtrace_of_libgcc;
static __typeof__(_Unwind_GetIP) *ip_of_libgcc;

void gf_profile_start(void)
{
    struct gf_symbol backtrace, ip;
    const struct link_map *libgcc = dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL);

    if (!libgcc || !gf_symbol_find_in(libgcc->l_addr, "_Unwind_Backtrace", &backtrace) ||
        !gf_symbol_find_in(libgcc->l_addr, "_Unwind_GetIP", &ip))
        return;
    ip_of_libgcc = (__typeof__(ip_of_libgcc))ip.address;
    gf_store_release(&backtrace_of_libgcc, (__typeof__(_Unwind_Backtrace) *)backtrace.address);
}

/*
 * jemalloc takes a first backtrace during its start, under a lock and before gf_profile_start. For
 * that backtrace, this function returns no frame.
 */
_Unwind_Reason_Code gf_heap_unwind(_Unwind_Trace_Fn step, void *closure)
{
    __typeof__(_Unwind_Backtrace) *const backtrace = gf_load_acquire(&backtrace_of_libgcc);
    return backtrace ? backtrace(step, closure) : _URC_END_OF_STACK;
}

_Unwind_Ptr gf_heap_unwind_ip(struct _Unwind_Context *context)
{
    return ip_of_libgcc(context);
}

/*
 * Finds the original pthread_create, because the hook would mistake jemalloc's threads for threads
 * of the program.
 */
void *gf_heap_dlsym(void *handle, const char *name)
{
    struct gf_symbol found;

    (void)handle;
    return gf_symbol_find(name, (const void *)(uintptr_t)&gf_heap_dlsym, &found) ? found.address
                                                                                 : NULL;
}
