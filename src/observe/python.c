/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/python.h"

#include "base/symbols.h"
#include "observe/peek.h"
#include "observe/python_line.h"
#include "observe/unwind.h"

#include <string.h>

/* Offsets, in bytes, of CPython's own headers of that version on 64-bit machines. */
struct layout {
    unsigned minor;
    unsigned thread_frame;  /* thread state: the innermost frame, or the C frame that has it */
    int c_frame;            /* in the C frame: the innermost frame; -1: there is no such */
    unsigned code, previous; /* in a frame */
    unsigned at;            /* in a frame: where it is, as a number or as a pointer into the code */
    int owner;              /* in a frame: 3 is the interpreter's own; -1 */
    unsigned file, name, qualified, first_line, table; /* in a code object */
    unsigned bytecode;      /* in a code object; 0: `at` is a number */
    unsigned at_scale;      /* bytes of one step of that number */
    unsigned ascii, compact; /* sizes of a string's header */
    gf_python_line_fn *line;
};

static const struct layout layouts[] = {
    {9, 24, -1, 32, 24, 104, -1, 104, 112, 0, 40, 120, 0, 1, 48, 72, gf_python_line_lnotab},
    {10, 24, -1, 32, 24, 96, -1, 104, 112, 0, 40, 120, 0, 2, 48, 72, gf_python_line_ranges},
    {11, 56, 8, 32, 48, 56, 69, 112, 120, 128, 72, 136, 184, 1, 48, 72, gf_python_line_locations},
    {12, 56, 0, 0, 8, 56, 70, 112, 120, 128, 68, 136, 192, 1, 40, 56, gf_python_line_locations},
    {13, 72, -1, 0, 8, 56, 70, 112, 120, 128, 68, 136, 200, 1, 40, 56, gf_python_line_locations},
};

enum { object_type = 8, var_size = 16, bytes_data = 32, type_name = 24,
       string_length = 16, string_state = 32 };
#define OWNER_INTERPRETER 3
#define STEPS_MOST 64 /* frames looked at, those of the interpreter itself included */

static struct {
    void *(*this_thread)(void);
    const char *(*version)(void);
    const void *object; /* that has them, as gf_unwind_object tells it */
} interpreter;
/* Whoever finds it finds the same. Never NULL: a thread may read by it while it is looked for anew. */
static const struct layout *layout = layouts;
static bool layout_known;

/* A program that embeds Python may close it again. */
static bool is_there(void)
{
    void *(*const function)(void) = __atomic_load_n(&interpreter.this_thread, __ATOMIC_ACQUIRE);
    return function && gf_unwind_object((const void *)(uintptr_t)function) == interpreter.object;
}

void gf_python_open(void)
{
    struct gf_symbol thread, version;

    /* Another one may lie in the same place. */
    __atomic_store_n(&layout_known, false, __ATOMIC_RELAXED);
    if (is_there() || !gf_symbol_find("PyGILState_GetThisThreadState", NULL, &thread) ||
        !gf_symbol_find("Py_GetVersion", NULL, &version))
        return;
    __atomic_store_n(&interpreter.this_thread, NULL, __ATOMIC_RELAXED);
    interpreter.version = (const char *(*)(void))version.address;
    interpreter.object = gf_unwind_object(thread.address);
    __atomic_store_n(&interpreter.this_thread, (void *(*)(void))thread.address, __ATOMIC_RELEASE);
}

/* "3.11.2 (main, ...": two functions that read what the interpreter has written at its start. */
static const struct layout *find_layout(void)
{
    const char *version = interpreter.version();
    unsigned minor = 0;

    if (!version || strncmp(version, "3.", 2) != 0)
        return NULL;
    for (const char *p = version + 2; *p >= '0' && *p <= '9'; p++)
        minor = minor * 10 + (unsigned)(*p - '0');
    /* Objects have another head there. */
    if (strstr(version, "free-threading"))
        return NULL;
    for (size_t i = 0; i < GF_ARRAY_LEN(layouts); i++)
        if (layouts[i].minor == minor)
            return &layouts[i];
    return NULL;
}

static bool know_layout(void)
{
    const struct layout *found = find_layout();
    if (!found)
        return false;
    __atomic_store_n(&layout, found, __ATOMIC_RELAXED);
    __atomic_store_n(&layout_known, true, __ATOMIC_RELEASE);
    return true;
}

static bool peek_pointer(uintptr_t address, uintptr_t *ret)
{
    return gf_peek(address, ret, sizeof(*ret));
}

static bool is_code(uintptr_t object)
{
    uintptr_t type, name;
    char text[5];

    return object && peek_pointer(object + object_type, &type) &&
           peek_pointer(type + type_name, &name) && gf_peek(name, text, sizeof(text)) &&
           memcmp(text, "code", sizeof(text)) == 0;
}

/* One code point as UTF-8; how many bytes. */
static size_t encode(uint32_t point, char *ret)
{
    if (point < 0x80) {
        ret[0] = (char)point;
        return 1;
    }
    if (point < 0x800) {
        ret[0] = (char)(0xc0 | point >> 6);
        ret[1] = (char)(0x80 | (point & 0x3f));
        return 2;
    }
    if (point < 0x10000) {
        ret[0] = (char)(0xe0 | point >> 12);
        ret[1] = (char)(0x80 | (point >> 6 & 0x3f));
        ret[2] = (char)(0x80 | (point & 0x3f));
        return 3;
    }
    ret[0] = (char)(0xf0 | point >> 18);
    ret[1] = (char)(0x80 | (point >> 12 & 0x3f));
    ret[2] = (char)(0x80 | (point >> 6 & 0x3f));
    ret[3] = (char)(0x80 | (point & 0x3f));
    return 4;
}

/* The last characters of a str that fit. */
static bool read_string(uintptr_t object, char *ret, size_t size)
{
    uintptr_t length;
    uint32_t state;
    unsigned char units[64 * 4];
    size_t at = 0;

    if (!object || !peek_pointer(object + string_length, &length) ||
        !gf_peek(object + string_state, &state, sizeof(state)))
        return false;
    const unsigned width = state >> 2 & 7;
    const bool compact = state >> 5 & 1, ascii = state >> 6 & 1;
    if (!compact || (width != 1 && width != 2 && width != 4) || (ascii && width != 1) ||
        length > 1 << 20)
        return false;
    const size_t room = (size - 1) / (ascii ? 1 : width == 1 ? 2 : width == 2 ? 3 : 4);
    const uintptr_t data = object + (ascii ? layout->ascii : layout->compact);
    for (size_t i = length > room ? length - room : 0; i < length;) {
        const size_t some = gf_min(length - i, sizeof(units) / 4);
        if (!gf_peek(data + i * width, units, some * width))
            return false;
        for (size_t k = 0; k < some; k++) {
            uint32_t point = 0;
            memcpy(&point, units + k * width, width);
            /* An object that is no more may claim it: `room` counts on it. */
            if (ascii && point >= 0x80)
                return false;
            at += encode(point, ret + at);
        }
        i += some;
    }
    ret[at] = '\0';
    return true;
}

static bool find_line(uintptr_t frame, uintptr_t code, int *ret)
{
    struct gf_python_code about = {.data = 0};
    uintptr_t table, size, at = 0;
    int32_t first, step;

    if (!gf_peek(code + layout->first_line, &first, sizeof(first)) ||
        !peek_pointer(code + layout->table, &table) || !table ||
        !peek_pointer(table + var_size, &size) || size > 1 << 24)
        return false;
    if (layout->bytecode) {
        if (!peek_pointer(frame + layout->at, &at))
            return false;
        at -= code + layout->bytecode;
    } else {
        if (!gf_peek(frame + layout->at, &step, sizeof(step)) || step < 0)
            return false;
        at = (uintptr_t)step * layout->at_scale;
    }
    about.data = table + bytes_data;
    about.size = size;
    about.first_line = first;
    return at < 1 << 28 && layout->line(&about, at, ret);
}

static bool read_frame(uintptr_t frame, struct gf_python_frame *ret)
{
    uintptr_t code, file, name;

    if (!peek_pointer(frame + layout->code, &code) || !is_code(code) ||
        !peek_pointer(code + layout->file, &file) ||
        !peek_pointer(code + (layout->qualified ? layout->qualified : layout->name), &name))
        return false;
    return read_string(file, ret->file, sizeof(ret->file)) &&
           read_string(name, ret->function, sizeof(ret->function)) &&
           find_line(frame, code, &ret->line);
}

static bool is_of_interpreter(uintptr_t frame)
{
    char owner;
    return layout->owner >= 0 && gf_peek(frame + (unsigned)layout->owner, &owner, 1) &&
           owner == OWNER_INTERPRETER;
}

size_t gf_python_frames(struct gf_python_frame *ret, size_t cap)
{
    uintptr_t frame;
    size_t count = 0;

    if (!is_there())
        return 0;
    const uintptr_t thread = (uintptr_t)interpreter.this_thread();
    if (!thread || (!__atomic_load_n(&layout_known, __ATOMIC_ACQUIRE) && !know_layout()) ||
        !peek_pointer(thread + layout->thread_frame, &frame) ||
        (layout->c_frame >= 0 && !peek_pointer(frame + (unsigned)layout->c_frame, &frame)))
        return 0;
    for (unsigned i = 0; frame && count < cap && i < STEPS_MOST; i++) {
        if (!is_of_interpreter(frame) && read_frame(frame, &ret[count]))
            count++;
        if (!peek_pointer(frame + layout->previous, &frame))
            break;
    }
    return count;
}
