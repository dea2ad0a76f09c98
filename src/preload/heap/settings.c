/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/settings.h"

#include "base/fmt.h"
#include "preload/heap/jemalloc/jemalloc.h"

#include <stdlib.h>
#include <string.h>

enum kind { kind_bool, kind_size, kind_ssize, kind_unsigned };

struct setting {
    const char *name;
    enum kind kind;
    const char *reason;
    /* The value for each GPUFEED_PROFILE; "" keeps jemalloc's default. */
    char training[12], inference[12];
};

/* docs/heap.md has the measurements behind these values. */
static struct setting settings[] = {
    {"oversize_threshold", kind_size,
     "large blocks stay in their thread's arena, and are not purged at each free", "0", "0"},
    {"background_thread", kind_bool,
     "the program would see a thread that it did not create; forked children would lack it",
     "false", "false"},
    {"dirty_decay_ms", kind_ssize,
     "the library's budget bounds the freed pages, and purges the oldest first", "-1", "-1"},
    {"muzzy_decay_ms", kind_ssize, "purged pages are returned at once, not freed lazily", "0", "0"},
    {"lg_extent_max_active_fit", kind_size,
     "a block may be cut from freed pages of any size, so that they are used before new ones", "20",
     "20"},
    {"tcache_max", kind_size,
     "up to this size, a malloc and a free take 50 ns together, instead of 250 to 400 ns", "262144",
     "262144"},
    {"tcache_nslots_large", kind_unsigned,
     "a thread caches at most this many blocks of a large size class, and at most 256 KiB or one "
     "block",
     GF_STRINGIFY(GF_JEMALLOC_LARGE_SLOTS), GF_STRINGIFY(GF_JEMALLOC_LARGE_SLOTS)},
    {"tcache_gc_incr_bytes", kind_size,
     "a thread trims its cache each time it has allocated this much, not every 64 KiB", "4194304",
     "4194304"},
    {"narenas", kind_unsigned,
     "one for each CPU that the process may use; jemalloc's default, four for each CPU, retains "
     "four times the memory",
     "", ""},
};
#define NARENAS (GF_ARRAY_LEN(settings) - 1)

static char conf[256];
const char *je_malloc_conf = conf;

static enum gf_profile profile;

/*
 * jemalloc creates arena 0, the main thread's, before it reads opt.oversize_threshold. So this
 * arena would keep a threshold of 8 MiB. Each larger block that the main thread frees would be
 * purged at once, so each batch would cause page faults. The arena copies its threshold from this
 * variable, so the variable is set before jemalloc's first call. A mallctl could set the threshold
 * later, but would make jemalloc build its whole control tree in every short-lived process. A
 * user's threshold in MALLOC_CONF still applies to all other arenas.
 */
static void correct_arena_0(void)
{
    je_oversize_threshold = SIZE_MAX;
}

static const char *wanted_value(const struct setting *setting)
{
    return profile == gf_profile_inference ? setting->inference : setting->training;
}

void gf_settings_apply(const struct gf_startup_env *startup)
{
    size_t at = 0;

    profile = gf_startup_env_options()->profile;
    if (startup->known) {
        const unsigned cpus = gf_set_count(&startup->cpus);
        gf_fmt(settings[NARENAS].training, sizeof(settings[0].training), "%u", cpus);
        gf_fmt(settings[NARENAS].inference, sizeof(settings[0].inference), "%u", cpus);
    }
    for (size_t i = 0; i < GF_ARRAY_LEN(settings); i++)
        if (*wanted_value(&settings[i]))
            at += (size_t)gf_fmt(conf + at, sizeof(conf) - at, "%s%s:%s", at ? "," : "",
                                 settings[i].name, wanted_value(&settings[i]));
    correct_arena_0();
}

static bool read_back(const struct setting *setting, char *ret, size_t size)
{
    union {
        bool truth;
        size_t size;
        ssize_t ssize;
        unsigned number;
    } value = {0};
    static const size_t sizes[] = {sizeof(bool), sizeof(size_t), sizeof(ssize_t), sizeof(unsigned)};
    size_t length = sizes[setting->kind];
    char name[48];

    gf_fmt(name, sizeof(name), "opt.%s", setting->name);
    if (je_mallctl(name, &value, &length, NULL, 0) != 0)
        return false;
    switch (setting->kind) {
    case kind_bool:
        gf_fmt(ret, size, "%s", value.truth ? "true" : "false");
        break;
    case kind_size:
        gf_fmt(ret, size, "%zu", value.size);
        break;
    case kind_ssize:
        gf_fmt(ret, size, "%zd", value.ssize);
        break;
    case kind_unsigned:
        gf_fmt(ret, size, "%u", value.number);
        break;
    }
    return true;
}

bool gf_settings_read(size_t i, struct gf_heap_setting *ret)
{
    if (i >= GF_ARRAY_LEN(settings))
        return false;
    *ret = (struct gf_heap_setting){.name = settings[i].name};
    if (!read_back(&settings[i], ret->value, sizeof(ret->value)))
        gf_fmt(ret->value, sizeof(ret->value), "unknown");
    ret->ours = strcmp(ret->value, wanted_value(&settings[i])) == 0;
    /* If a user has set the value, the reason for it is unknown. */
    ret->reason = ret->ours ? settings[i].reason : NULL;
    return true;
}

/*
 * glibc aligns every block to 16 bytes, and programs rely on that. jemalloc aligns blocks of its
 * 8-byte class to 8. So this function changes the table by which jemalloc finds a size's class.
 * Sizes of up to 8 bytes then get the 16-byte class, which costs no time per call.
 */
void gf_settings_align_tiny(void)
{
    for (uint8_t class = 0; class < 4; class ++)
        if (je_sz_index2size_tab[class] == 16)
            je_sz_size2index_tab[0] = je_sz_size2index_tab[1] = class;
}

bool gf_settings_decay_is_ours(void)
{
    for (size_t i = 0; i < GF_ARRAY_LEN(settings); i++) {
        const bool dirty = strcmp(settings[i].name, "dirty_decay_ms") == 0;
        const ssize_t now = dirty ? je_opt_dirty_decay_ms : je_opt_muzzy_decay_ms;
        if ((dirty || strcmp(settings[i].name, "muzzy_decay_ms") == 0) &&
            now != strtol(wanted_value(&settings[i]), NULL, 10))
            return false;
    }
    return true;
}
