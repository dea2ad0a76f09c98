/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/files/mapped_file.h"

#include "base/clock.h"
#include "engine/transfer/stats.h"
#include "engine/transfer/tuning.h"

#include <pthread.h>

#define FILES 64  /* a further file replaces the file whose last use is oldest */
#define DEVICES 8 /* a further device replaces the device whose last use is oldest */
#define PLACES 8  /* the number of ranges, and of ends of copies, that are stored for each file */

/*
 * Whether files on a device may be read ahead. Another file system may get the same device number
 * later, so an answer is used only for GF_TUNE_READAHEAD_KNOWN_NS.
 */
struct device {
    uint32_t major, minor;
    bool is_used, is_known, is_allowed;
    uint64_t known_ns, last_use;
};

struct file {
    struct gf_mapped_file_id id;
    bool is_used, is_counted;
    uint64_t last_use;
    uint64_t read;     /* bytes that copies have read */
    uint64_t passed;   /* bytes that were read ahead, but that copies then skipped */
    uint64_t reserved; /* bytes that copies under way may still read ahead */
    struct gf_range ahead[PLACES];
    /* the length of the last pause of read-ahead, in copied bytes; 0: no pause */
    uint64_t quiet;
    uint64_t quiet_until; /* nothing is read ahead until `read` has reached this value */
    /* a counter: a new range replaces ahead[oldest % PLACES] if no place is free */
    unsigned oldest;
    uint64_t ends[PLACES]; /* the offsets at which the last copies ended; 0: unused */
    unsigned oldest_end;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all variables below */
static struct file files[FILES];
static struct device devices[DEVICES];
static uint64_t uses;

static struct device *find_device(uint32_t major, uint32_t minor)
{
    for (size_t i = 0; i < DEVICES; i++)
        if (devices[i].is_used && devices[i].major == major && devices[i].minor == minor)
            return &devices[i];
    return NULL;
}

static struct device *add_device(uint32_t major, uint32_t minor)
{
    struct device *found = &devices[0];

    for (size_t i = 1; i < DEVICES; i++)
        if (devices[i].last_use < found->last_use)
            found = &devices[i];
    *found = (struct device){.major = major, .minor = minor, .is_used = true};
    return found;
}

/*
 * Whether files on the device may be read ahead. For a new device, returns gf_mapped_file_unknown
 * once, and then gf_mapped_file_no until the answer is known.
 */
static enum gf_mapped_file_answer ask_device(uint32_t major, uint32_t minor)
{
    struct device *device = find_device(major, minor);
    const bool asks = !device || (device->is_known &&
                                  gf_now_ns() - device->known_ns > GF_TUNE_READAHEAD_KNOWN_NS);

    if (!device)
        device = add_device(major, minor);
    device->last_use = ++uses;
    device->is_known &= !asks;
    return asks                                     ? gf_mapped_file_unknown
           : device->is_known && device->is_allowed ? gf_mapped_file_yes
                                                    : gf_mapped_file_no;
}

static bool is_same(const struct gf_mapped_file_id *a, const struct gf_mapped_file_id *b)
{
    return a->inode == b->inode && a->major == b->major && a->minor == b->minor;
}

static struct file *find_file(const struct gf_mapped_file_id *id)
{
    for (size_t i = 0; i < FILES; i++)
        if (files[i].is_used && is_same(&files[i].id, id))
            return &files[i];
    return NULL;
}

static struct file *add_file(const struct gf_mapped_file_id *id)
{
    struct file *found = &files[0];

    for (size_t i = 1; i < FILES; i++)
        if (files[i].last_use < found->last_use)
            found = &files[i];
    *found = (struct file){.id = *id, .is_used = true};
    return found;
}

static uint64_t length(const struct gf_range *range)
{
    return range->end - range->start;
}

/*
 * The bytes that were read ahead and not copied yet, plus those that copies under way may still
 * read ahead.
 */
static uint64_t unread(const struct file *file)
{
    uint64_t sum = file->passed + file->reserved;

    for (size_t i = 0; i < PLACES; i++)
        sum += length(&file->ahead[i]);
    return sum;
}

/* The first byte at or after `at` that was not read ahead. */
static uint64_t end_of_ahead(const struct file *file, uint64_t at)
{
    for (size_t i = 0; i < PLACES; i++)
        if (file->ahead[i].start <= at && at < file->ahead[i].end) {
            at = file->ahead[i].end;
            i = (size_t)-1; /* search again from the first range */
        }
    return at;
}

/*
 * Called when a copy begins. Bytes within the copy that were read ahead count as used. Bytes of the
 * same range before the copy count as skipped. Both are removed from the range.
 */
static void use_ahead(struct file *file, const struct gf_range *copy)
{
    for (size_t i = 0; i < PLACES; i++) {
        struct gf_range *ahead = &file->ahead[i];
        if (ahead->end <= copy->start || ahead->start >= copy->end)
            continue;
        const uint64_t from = gf_max(ahead->start, copy->start);
        const uint64_t to = gf_min(ahead->end, copy->end);
        file->passed += from - ahead->start;
        gf_copy_stats_add(readahead.used, to - from);
        ahead->start = to;
    }
}

/*
 * How many bytes after the copy's end may be read ahead, including the `own` bytes after it that
 * have already been read ahead.
 */
static uint64_t window(const struct file *file, uint64_t own)
{
    const uint64_t most =
        gf_max((uint64_t)GF_TUNE_READAHEAD_UNREAD, file->read / GF_TUNE_READAHEAD_UNREAD_PART);
    const uint64_t held = unread(file) - own;

    return gf_min(file->read, most > held ? most - held : 0);
}

/*
 * Whether the copy continues an earlier copy. Stores the copy's end, which replaces the end of the
 * earlier copy.
 */
static bool continues(struct file *file, const struct gf_range *copy)
{
    for (size_t i = 0; i < PLACES; i++)
        if (file->ends[i] && copy->start + GF_TUNE_READAHEAD_GAP >= file->ends[i] &&
            copy->start <= file->ends[i] + GF_TUNE_READAHEAD_GAP) {
            file->ends[i] = copy->end;
            return true;
        }
    file->ends[file->oldest_end++ % PLACES] = copy->end;
    return false;
}

/* Does the work of gf_mapped_file_begin for a file that may be read ahead. */
static void begin_file(struct file *file, const struct gf_range *copy, bool is_next,
                       struct gf_range *ret)
{
    const uint64_t start = end_of_ahead(file, copy->start);
    use_ahead(file, copy);
    const uint64_t own = start > copy->end ? start - copy->end : 0;
    const uint64_t more = is_next ? window(file, own) : 0;

    *ret = (struct gf_range){start, gf_max(start, copy->end + more)};
    file->reserved += ret->end - gf_max(start, copy->end);
    gf_copy_stats_add(readahead.files, !file->is_counted);
    file->is_counted = true;
}

enum gf_mapped_file_answer gf_mapped_file_begin(const struct gf_mapped_file_id *id,
                                                const struct gf_range *copy, struct gf_range *ret)
{
    pthread_mutex_lock(&lock);
    enum gf_mapped_file_answer answer = ask_device(id->major, id->minor);
    struct file *file = find_file(id);
    if (!file && answer != gf_mapped_file_no)
        file = add_file(id);
    const bool is_next = file && continues(file, copy);
    if (file && file->read < file->quiet_until && answer == gf_mapped_file_yes)
        answer = gf_mapped_file_no;
    if (file && answer == gf_mapped_file_yes)
        begin_file(file, copy, is_next, ret);
    if (file) {
        file->last_use = ++uses;
        file->read += length(copy);
    }
    pthread_mutex_unlock(&lock);
    return answer;
}

/*
 * Adds a range of bytes that were read ahead. If the new range begins inside an earlier range or at
 * its end, extends the earlier range instead.
 */
static void add_ahead(struct file *file, const struct gf_range *range)
{
    for (size_t i = 0; i < PLACES; i++)
        if (length(&file->ahead[i]) && file->ahead[i].start <= range->start &&
            file->ahead[i].end >= range->start) {
            file->ahead[i].end = gf_max(file->ahead[i].end, range->end);
            return;
        }
    struct gf_range *place = NULL;
    for (size_t i = 0; i < PLACES && !place; i++)
        place = length(&file->ahead[i]) ? NULL : &file->ahead[i];
    if (!place)
        place = &file->ahead[file->oldest++ % PLACES];
    file->passed += length(place);
    *place = *range;
}

/*
 * If the sampled pages were cached, the file's next pages are probably cached, too. So nothing is
 * read ahead in this file for a number of copied bytes.
 */
static void note_cached(struct file *file, bool is_cached)
{
    file->quiet = is_cached ? gf_min(gf_max(2 * file->quiet, (uint64_t)GF_TUNE_READAHEAD_QUIET),
                                     (uint64_t)GF_TUNE_READAHEAD_QUIET_MOST)
                            : 0;
    file->quiet_until = file->read + file->quiet;
}

void gf_mapped_file_end(const struct gf_mapped_file_id *id, const struct gf_range *copy,
                        const struct gf_range *ahead, uint64_t reached, bool is_cached)
{
    const struct gf_range range = {gf_max(copy->end, ahead->start), reached};
    const bool is_ahead = range.end > range.start;

    pthread_mutex_lock(&lock);
    struct file *file = find_file(id);
    if (file) {
        /*
         * If the file's entry was replaced and then created again during the copy, the new entry
         * has no reserved bytes.
         */
        file->reserved -= gf_min(file->reserved, ahead->end - gf_max(ahead->start, copy->end));
        if (is_ahead)
            add_ahead(file, &range);
        if (reached || is_cached)
            note_cached(file, is_cached);
    }
    if (is_ahead)
        gf_copy_stats_add(readahead.ahead, length(&range));
    pthread_mutex_unlock(&lock);
}

static void set_device(uint32_t major, uint32_t minor, bool is_allowed)
{
    pthread_mutex_lock(&lock);
    struct device *device = find_device(major, minor);
    if (device) {
        device->is_known = true;
        device->is_allowed = is_allowed;
        device->known_ns = gf_now_ns();
    }
    pthread_mutex_unlock(&lock);
}

void gf_mapped_files_look_up(bool (*allows)(unsigned major, unsigned minor))
{
    for (size_t i = 0; i < DEVICES; i++) {
        pthread_mutex_lock(&lock);
        const struct device device = devices[i];
        pthread_mutex_unlock(&lock);
        if (device.is_used && !device.is_known)
            set_device(device.major, device.minor, allows(device.major, device.minor));
    }
}
