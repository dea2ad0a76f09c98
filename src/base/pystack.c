/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pystack.h"

#include "base/fmt.h"
#include "base/path.h"

/* Reads the bytes of a line table through a small buffer. */
struct line_reader {
    const struct gf_pystack_table *table;
    size_t at, start, held;
    bool failed;
    unsigned char buf[256];
};

static bool is_at_end(const struct line_reader *r)
{
    return r->failed || r->at >= r->table->size;
}

static unsigned peek_byte(struct line_reader *r)
{
    const struct gf_pystack_memory *memory = r->table->memory;

    if (is_at_end(r))
        return 0;
    if (r->at < r->start || r->at >= r->start + r->held) {
        r->start = r->at;
        r->held = memory->read(memory->closure, r->table->data + r->at, r->buf,
                               gf_min(r->table->size - r->at, sizeof(r->buf)));
        if (!r->held) {
            r->failed = true;
            return 0;
        }
    }
    return r->buf[r->at - r->start];
}

static unsigned next_byte(struct line_reader *r)
{
    const unsigned byte = peek_byte(r);
    r->at++;
    return byte;
}

static int sign_extend(unsigned byte)
{
    return byte < 128 ? (int)byte : (int)byte - 256;
}

bool gf_pystack_line_lnotab(const struct gf_pystack_table *table, size_t at, int *ret)
{
    struct line_reader r = {.table = table};
    size_t address = 0;

    *ret = table->first_line;
    while (!is_at_end(&r)) {
        address += next_byte(&r);
        if (address > at)
            break;
        *ret += sign_extend(next_byte(&r));
    }
    return !r.failed;
}

bool gf_pystack_line_ranges(const struct gf_pystack_table *table, size_t at, int *ret)
{
    struct line_reader r = {.table = table};
    size_t end = 0;
    int line = table->first_line;

    while (!is_at_end(&r)) {
        const size_t start = end;
        end += next_byte(&r);
        const int delta = sign_extend(next_byte(&r));
        if (delta != -128)
            line += delta;
        if (at >= start && at < end) {
            *ret = line;
            return delta != -128 && !r.failed;
        }
    }
    return false;
}

/* Reads a number that is encoded with six bits per byte, the lowest bits first. */
static unsigned next_number(struct line_reader *r)
{
    unsigned value = 0, shift = 0, byte;
    do {
        byte = next_byte(r);
        if (shift < 32)
            value |= (byte & 0x3f) << shift;
        shift += 6;
    } while ((byte & 0x40) && !is_at_end(r));
    return value;
}

static int line_delta(struct line_reader *r, unsigned kind)
{
    if (kind == 13 || kind == 14) {
        const unsigned value = next_number(r);
        return value & 1 ? -(int)(value >> 1) : (int)(value >> 1);
    }
    return kind >= 10 && kind <= 12 ? (int)kind - 10 : 0;
}

bool gf_pystack_line_locations(const struct gf_pystack_table *table, size_t at, int *ret)
{
    struct line_reader r = {.table = table};
    size_t end = 0;
    int line = table->first_line;

    while (!is_at_end(&r)) {
        const unsigned first = next_byte(&r), kind = first >> 3 & 15;
        end += (size_t)((first & 7) + 1) * 2;
        line += line_delta(&r, kind);
        if (at < end) {
            *ret = line;
            return kind != 15 && !r.failed;
        }
        /* Skip to the next entry. Only the first byte of an entry has its highest bit set. */
        while (!is_at_end(&r) && !(peek_byte(&r) & 0x80))
            r.at++;
    }
    return false;
}

/*
 * Byte offsets of members in CPython's structs on 64-bit machines, from the headers of each
 * version.
 */
struct gf_pystack_layout {
    unsigned minor;
    /* In the thread state: the pointer to the innermost frame, or to a C frame. */
    unsigned thread_frame;
    /* In the thread state: the thread's pthread_self(). 0: not used for this version. */
    unsigned thread_id;
    /* In the C frame: the pointer to the innermost frame. -1: this version has no C frame. */
    int c_frame;
    unsigned code, previous; /* in a frame: pointers to the code object and the caller's frame */
    /* In a frame: the current instruction, as a number or as a pointer into the bytecode. */
    unsigned at;
    /*
     * In a frame: the byte that is at least OWNER_INTERPRETER in the interpreter's own frames; -1 if
     * frames of this version have no such byte.
     */
    int owner;
    unsigned file, name, qualified, first_line, table; /* in a code object */
    /* In a code object: the bytecode; 0 if the instruction at offset `at` is a number. */
    unsigned bytecode;
    unsigned at_scale;       /* bytes of bytecode per unit of this number */
    unsigned ascii, compact; /* sizes of the headers of an ASCII string and of another string */
    unsigned gc;             /* in the interpreter's state: the garbage collector's; 0: unknown */
    gf_pystack_line_fn *line;
};

static const struct gf_pystack_layout layouts[] = {
    {9, 24, 176, -1, 32, 24, 104, -1, 104, 112, 0, 40, 120, 0, 1, 48, 72, 616,
     gf_pystack_line_lnotab},
    {10, 24, 176, -1, 32, 24, 96, -1, 104, 112, 0, 40, 120, 0, 2, 48, 72, 616,
     gf_pystack_line_ranges},
    {11, 56, 152, 8, 32, 48, 56, 69, 112, 120, 128, 72, 136, 184, 1, 48, 72, 648,
     gf_pystack_line_locations},
    {12, 56, 0, 0, 0, 8, 56, 70, 112, 120, 128, 68, 136, 192, 1, 40, 56, 112,
     gf_pystack_line_locations},
    {13, 72, 0, -1, 0, 8, 56, 70, 112, 120, 128, 68, 136, 200, 1, 40, 56, 7400,
     gf_pystack_line_locations},
    {14, 72, 0, -1, 0, 8, 56, 74, 112, 120, 128, 68, 136, 208, 1, 40, 56, 0,
     gf_pystack_line_locations},
    {15, 72, 0, -1, 0, 8, 56, 74, 112, 120, 128, 68, 136, 208, 1, 40, 56, 0,
     gf_pystack_line_locations},
};

enum {
    object_type = 8,
    var_size = 16,
    bytes_data = 32,
    type_name = 24,
    type_flags = 168,
    /* In a lock or queue: the address of a semaphore; in a queue of 3.13, 1 while a thread waits. */
    lock_semaphore = 16,
    method_self = 24,     /* the object of a method of C */
    code_exceptions = 40, /* in a code object, from 3.11: its exception table */
    frame_locals = 72, /* its variables, the arguments first, then its stack, from 3.11 to 3.13 */
    /* In 3.13, an object's values follow its header and four bytes, the last of which is `valid`. */
    values_valid = 19,
    /* The names of the attributes of a type's objects: the table of indices precedes the names. */
    keys_index_bits = 9,
    keys_count = 24,
    keys_indices = 32,
    string_length = 16,
    string_state = 32,
    state_interpreter = 16, /* in the thread state */
    /* In the garbage collector's state. */
    gc_generations = 24,
    gc_youngest = 96, /* the address of gc_generations */
    gc_collecting = 200,
};
#define OWNER_INTERPRETER 3
#define TAG_BITS ((uintptr_t)7) /* from 3.14, a frame's pointer to its code may be tagged */
#define ATTRIBUTES_MOST 64
#define STACK_MOST 32
/* At most one of the interpreter's own frames precedes each frame of Python. */
#define STEPS(frames) (2 * (frames) + 2)
#define HOLDING_MOST 24
#define NAMED_MOST 95 /* a thread with more frames of Python has no name here */

/* version: a text such as "3.11.2 (main, Nov 30 2024, ...) [GCC 12.2.0]". */
const struct gf_pystack_layout *gf_pystack_layout(const char *version)
{
    unsigned minor = 0;

    if (!gf_begins(version, "3.") || strstr(version, "free-threading"))
        return NULL;
    for (const char *p = version + 2; *p >= '0' && *p <= '9'; p++)
        minor = minor * 10 + (unsigned)(*p - '0');
    for (size_t i = 0; i < GF_ARRAY_LEN(layouts); i++)
        if (layouts[i].minor == minor)
            return &layouts[i];
    return NULL;
}

static bool read_bytes(const struct gf_pystack *r, uintptr_t address, void *ret, size_t size)
{
    return r->memory->read(r->memory->closure, address, ret, size) == size;
}

static bool read_pointer(const struct gf_pystack *r, uintptr_t address, uintptr_t *ret)
{
    return read_bytes(r, address, ret, sizeof(*ret));
}

/* wanted: at most 31 characters. */
static bool is_of_type(const struct gf_pystack *r, uintptr_t object, const char *wanted)
{
    uintptr_t type, name;
    char text[32];
    const size_t size = strlen(wanted) + 1;

    return object && read_pointer(r, object + object_type, &type) &&
           read_pointer(r, type + type_name, &name) && read_bytes(r, name, text, size) &&
           memcmp(text, wanted, size) == 0;
}

/* The header of a Python str. */
struct string {
    uintptr_t length; /* number of characters */
    unsigned width;   /* bytes per character */
    bool ascii;
};

static bool read_string_header(const struct gf_pystack *r, uintptr_t object, struct string *ret)
{
    uint32_t state;

    if (!object || !read_pointer(r, object + string_length, &ret->length) ||
        !read_bytes(r, object + string_state, &state, sizeof(state)))
        return false;
    const bool compact = state >> 5 & 1;
    ret->width = state >> 2 & 7;
    ret->ascii = state >> 6 & 1;
    return compact && (ret->width == 1 || ret->width == 2 || ret->width == 4) &&
           (!ret->ascii || ret->width == 1) && ret->length <= 1 << 20;
}

/*
 * Reads a Python str as UTF-8. If ret is too small, reads only the last characters, as many as fit.
 */
static bool read_string(const struct gf_pystack *r, uintptr_t object, char *ret, size_t size)
{
    struct string string;
    unsigned char units[64 * 4];
    size_t at = 0;

    if (!read_string_header(r, object, &string))
        return false;
    const uintptr_t length = string.length;
    const unsigned width = string.width;
    const bool ascii = string.ascii;
    const size_t room = (size - 1) / (ascii ? 1 : width == 1 ? 2 : width == 2 ? 3 : 4);
    const uintptr_t data = object + (ascii ? r->layout->ascii : r->layout->compact);
    for (size_t i = length > room ? length - room : 0; i < length;) {
        const size_t some = gf_min(length - i, sizeof(units) / 4);
        if (!read_bytes(r, data + i * width, units, some * width))
            return false;
        for (size_t k = 0; k < some; k++) {
            uint32_t point = 0;
            memcpy(&point, units + k * width, width);
            /*
             * If the memory was freed, the ASCII flag may be wrong. A byte that is not ASCII needs
             * two bytes of UTF-8, for which `room` has no space. So each byte is checked.
             */
            if (ascii && point >= 0x80)
                return false;
            at += gf_utf8_encode(point, ret + at);
        }
        i += some;
    }
    ret[at] = '\0';
    return true;
}

/* member: where a code object has the address of the table's bytes object. */
static bool find_table(const struct gf_pystack *r, uintptr_t member, struct gf_pystack_table *ret)
{
    uintptr_t object;

    if (!read_pointer(r, member, &object) || !object ||
        !read_pointer(r, object + var_size, &ret->size) || ret->size > 1 << 24)
        return false;
    ret->memory = r->memory;
    ret->data = object + bytes_data;
    return true;
}

/* Sets *ret to the offset of the frame's instruction in the bytecode. */
static bool find_instruction(const struct gf_pystack *r, uintptr_t frame, uintptr_t code,
                             uintptr_t *ret)
{
    int32_t step;

    if (r->layout->bytecode) {
        if (!read_pointer(r, frame + r->layout->at, ret))
            return false;
        *ret -= code + r->layout->bytecode;
    } else {
        if (!read_bytes(r, frame + r->layout->at, &step, sizeof(step)) || step < 0)
            return false;
        *ret = (uintptr_t)step * r->layout->at_scale;
    }
    return *ret < 1 << 28;
}

static bool find_line(const struct gf_pystack *r, uintptr_t frame, uintptr_t code,
                      struct gf_pystack_frame *ret)
{
    struct gf_pystack_table table;
    uintptr_t at;
    int32_t first;

    if (!read_bytes(r, code + r->layout->first_line, &first, sizeof(first)) ||
        !find_table(r, code + r->layout->table, &table) || !find_instruction(r, frame, code, &at))
        return false;
    ret->first_line = table.first_line = first;
    return r->layout->line(&table, at, &ret->line);
}

static bool read_frame(const struct gf_pystack *r, uintptr_t frame, struct gf_pystack_frame *ret)
{
    const struct gf_pystack_layout *layout = r->layout;
    uintptr_t code, file, name;

    if (!read_pointer(r, frame + layout->code, &code))
        return false;
    code &= ~TAG_BITS;
    if (!is_of_type(r, code, "code") || !read_pointer(r, code + layout->file, &file) ||
        !read_pointer(r, code + (layout->qualified ? layout->qualified : layout->name), &name))
        return false;
    return read_string(r, file, ret->file, sizeof(ret->file)) &&
           read_string(r, name, ret->function, sizeof(ret->function)) &&
           find_line(r, frame, code, ret);
}

static bool is_interpreters_own(const struct gf_pystack *r, uintptr_t frame)
{
    unsigned char owner;
    return r->layout->owner >= 0 && read_bytes(r, frame + (unsigned)r->layout->owner, &owner, 1) &&
           owner >= OWNER_INTERPRETER;
}

bool gf_pystack_is_of_thread(const struct gf_pystack *r, uintptr_t thread_state, uintptr_t thread)
{
    uintptr_t found;

    return r->layout->thread_id && thread_state &&
           read_pointer(r, thread_state + r->layout->thread_id, &found) && found == thread;
}

static bool find_frame(const struct gf_pystack *r, uintptr_t thread_state, uintptr_t *ret)
{
    const int c_frame = r->layout->c_frame;

    return read_pointer(r, thread_state + r->layout->thread_frame, ret) &&
           (c_frame < 0 || read_pointer(r, *ret + (unsigned)c_frame, ret));
}

size_t gf_pystack_frames(const struct gf_pystack *r, uintptr_t thread_state,
                         struct gf_pystack_frame *ret, size_t cap, bool *ret_whole)
{
    uintptr_t frame;
    size_t count = 0;
    bool known = find_frame(r, thread_state, &frame);
    unsigned unread = 0;

    for (size_t i = 0; known && frame && count < cap && i < STEPS(cap); i++) {
        if (!is_interpreters_own(r, frame)) {
            if (read_frame(r, frame, &ret[count]))
                ret[count++].inner = unread;
            else
                unread++;
        }
        known = read_pointer(r, frame + r->layout->previous, &frame);
    }
    if (ret_whole)
        *ret_whole = known && !frame;
    return count;
}

size_t gf_pystack_own_frame(const struct gf_pystack_frame *frames, size_t count, bool whole)
{
    size_t typed = count, package = count;

    for (size_t i = 0; i < count; i++) {
        const char *file = frames[i].file;
        if (!gf_path_is_python_library(file)) {
            if (*file != '<')
                return i;
            typed = gf_min(typed, i);
        }
        if (strstr(file, "/site-packages/") || strstr(file, "/dist-packages/"))
            package = i;
    }
    return typed < count ? typed : !whole ? 0 : package < count ? package : count - 1;
}

/*
 * Finds the names and the values of an object's attributes. Python creates no dictionary for an
 * object before a program reads it.
 */
static bool find_attributes(const struct gf_pystack *r, uintptr_t object, uintptr_t *ret_keys,
                            uintptr_t *ret_values)
{
    const unsigned minor = r->layout->minor;
    uintptr_t type, flags;
    unsigned char valid;

    if (minor < 11 || minor > 13 || !read_pointer(r, object + object_type, &type) ||
        !read_pointer(r, type + type_flags, &flags) || !(flags >> (minor == 13 ? 2 : 4) & 1) ||
        !read_pointer(r, type + (minor == 11 ? 872 : 880), ret_keys) || !*ret_keys)
        return false;
    *ret_values = object + 3 * sizeof(type);
    if (minor == 13)
        return read_bytes(r, object + values_valid, &valid, 1) && valid;
    if (!read_pointer(r, object - (minor == 11 ? 4 : 3) * sizeof(type), ret_values))
        return false;
    if (minor == 11)
        return *ret_values != 0;
    return (*ret_values)++ & 1;
}

static bool read_attribute(const struct gf_pystack *r, uintptr_t object, const char *name,
                           char *ret, size_t size)
{
    uintptr_t keys, values, count, key, value;
    unsigned char index_bits;
    char text[16];

    if (!find_attributes(r, object, &keys, &values) ||
        !read_bytes(r, keys + keys_index_bits, &index_bits, 1) || index_bits > 16 ||
        !read_pointer(r, keys + keys_count, &count))
        return false;
    const uintptr_t entries = keys + keys_indices + ((uintptr_t)1 << index_bits);
    for (size_t i = 0; i < gf_min(count, (uintptr_t)ATTRIBUTES_MOST); i++)
        if (read_pointer(r, entries + 2 * i * sizeof(key), &key) &&
            read_string(r, key, text, sizeof(text)) && strcmp(text, name) == 0)
            return read_pointer(r, values + i * sizeof(value), &value) &&
                   is_of_type(r, value, "str") && read_string(r, value, ret, size);
    return false;
}

bool gf_pystack_thread_name(const struct gf_pystack *r, uintptr_t thread_state, char *ret,
                            size_t size)
{
    struct gf_pystack_frame outermost;
    uintptr_t frame, last = 0, self;

    if (!find_frame(r, thread_state, &frame))
        return false;
    for (unsigned i = 0; frame && i < STEPS(NAMED_MOST); i++) {
        if (!is_interpreters_own(r, frame))
            last = frame;
        if (!read_pointer(r, frame + r->layout->previous, &frame))
            return false;
    }
    return !frame && last && read_frame(r, last, &outermost) &&
           strcmp(outermost.function, "Thread._bootstrap") == 0 &&
           read_pointer(r, last + frame_locals, &self) &&
           read_attribute(r, self, "_name", ret, size);
}

/* The object whose method is called is on the stack of the function that calls it. */
bool gf_pystack_is_in_queue(const struct gf_pystack *r, uintptr_t thread_state, uintptr_t futex)
{
    const unsigned minor = r->layout->minor;
    uintptr_t frame, code, object, lock;
    uint32_t sizes[3]; /* of a code object's stack, its first line, the number of its variables */

    if (minor < 11 || minor > 13 || !find_frame(r, thread_state, &frame) ||
        !read_pointer(r, frame + r->layout->code, &code) || !is_of_type(r, code, "code") ||
        !read_bytes(r, code + r->layout->first_line - sizeof(*sizes), sizes, sizeof(sizes)))
        return false;
    const uintptr_t stack = frame + frame_locals + sizes[2] * sizeof(object);
    for (size_t i = 0; i < gf_min(sizes[0], (uint32_t)STACK_MOST); i++)
        if (read_pointer(r, stack + i * sizeof(object), &object) &&
            is_of_type(r, object, "_queue.SimpleQueue") &&
            read_pointer(r, object + lock_semaphore, &lock) &&
            (minor < 13 ? lock == futex : (lock & 0xff) == 1))
            return true;
    return false;
}

/* Reads a number that is encoded with six bits per byte, the highest bits first. */
static size_t next_big_number(struct line_reader *r)
{
    size_t value = 0;
    unsigned byte;
    do {
        byte = next_byte(r);
        value = value << 6 | (byte & 0x3f);
    } while ((byte & 0x40) && !is_at_end(r));
    return value;
}

/*
 * Returns how many objects an exception would leave on the function's stack: those of the statements
 * `with`, `try` and `for` around the instruction. 0 outside of `with` and `try`.
 */
static size_t count_kept(const struct gf_pystack_table *exceptions, size_t at)
{
    struct line_reader r = {.table = exceptions};

    while (!is_at_end(&r)) {
        const size_t start = 2 * next_big_number(&r), size = 2 * next_big_number(&r);
        next_big_number(&r); /* the handler */
        const size_t kept = next_big_number(&r) >> 1;
        if (at >= start && at - start < size)
            return r.failed ? 0 : kept;
    }
    return 0;
}

/* Inside of a `with` statement, the lock's method __exit__ is on the stack of the function. */
static bool is_in_with(const struct gf_pystack *r, uintptr_t frame, uintptr_t futex)
{
    struct gf_pystack_table exceptions;
    uintptr_t code, at, object, self, lock;
    uint32_t variables;

    if (!read_pointer(r, frame + r->layout->code, &code) || !is_of_type(r, code, "code") ||
        !find_table(r, code + code_exceptions, &exceptions) || !exceptions.size ||
        !find_instruction(r, frame, code, &at) ||
        !read_bytes(r, code + r->layout->first_line + 4, &variables, sizeof(variables)))
        return false;
    const uintptr_t stack = frame + frame_locals + variables * sizeof(object);
    const size_t kept = count_kept(&exceptions, at);
    for (size_t i = 0; i < gf_min(kept, (size_t)STACK_MOST); i++)
        if (read_pointer(r, stack + i * sizeof(object), &object) &&
            is_of_type(r, object, "builtin_function_or_method") &&
            read_pointer(r, object + method_self, &self) &&
            read_pointer(r, self + lock_semaphore, &lock) && lock == futex)
            return true;
    return false;
}

bool gf_pystack_holder(const struct gf_pystack *r, uintptr_t thread_state, uintptr_t futex,
                       struct gf_pystack_frame *ret)
{
    uintptr_t frame;
    bool known =
        r->layout->minor >= 11 && r->layout->minor <= 13 && find_frame(r, thread_state, &frame);

    for (unsigned i = 0; known && frame && i < STEPS(HOLDING_MOST); i++) {
        if (is_in_with(r, frame, futex))
            return read_frame(r, frame, ret);
        known = read_pointer(r, frame + r->layout->previous, &frame);
    }
    return false;
}

bool gf_pystack_is_collecting(const struct gf_pystack *r, uintptr_t thread_state)
{
    uintptr_t interpreter, youngest;
    int32_t collecting;

    if (!r->layout->gc || !read_pointer(r, thread_state + state_interpreter, &interpreter))
        return false;
    const uintptr_t gc = interpreter + r->layout->gc;
    return read_pointer(r, gc + gc_youngest, &youngest) && youngest == gc + gc_generations &&
           read_bytes(r, gc + gc_collecting, &collecting, sizeof(collecting)) && collecting == 1;
}
