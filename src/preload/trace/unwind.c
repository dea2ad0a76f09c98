/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/trace/unwind.h"

#include "base/atomic.h"
#include "base/elf_view.h"
#include "base/symbols.h"
#include "os/memory.h"

#include <elf.h>
#include <link.h>

typedef int find_object_fn(void *pc, struct dl_find_object *ret);

static find_object_fn *_Atomic find_object;

#define SEGMENTS_MOST 16 /* segments of one object; later ones are ignored */
/*
 * Maximum number of frames that a walk visits. Frames of this library and frames of unknown code
 * are visited, too, but not recorded.
 */
#define STEPS_MOST (4 * GF_UNWIND_FRAMES)

/*
 * A copy of an object's program headers. The headers are copied by a safe read, because they may
 * not be mapped.
 */
struct segments {
    const void *of; /* the object's start */
    ElfW(Phdr) at[SEGMENTS_MOST];
    size_t count;
};

struct walk {
    struct gf_dwarf_frame frame;
    gf_unwind_peek *peek;
    uintptr_t window_at; /* the memory of which `window` is a copy */
    size_t window_size;
    struct object {
        const void *start;
        struct gf_table table;
    } object[GF_UNWIND_MODULES + 1], *in; /* objects visited until now; `in`: the current one */
    size_t objects;
    struct segments segments; /* of the object whose headers were read last */
    struct gf_rows rows;
    unsigned char window[1024];
};

_Static_assert(sizeof(struct walk) <= GF_UNWIND_SCRATCH, "GF_UNWIND_SCRATCH is too small");

void gf_unwind_open(void)
{
    struct gf_symbol found;
    if (!gf_load_relaxed(&find_object) && gf_symbol_find("_dl_find_object", NULL, &found))
        gf_store_release(&find_object, (find_object_fn *)found.address);
}

const void *gf_unwind_object(const void *address)
{
    find_object_fn *const find = gf_load_acquire(&find_object);
    struct dl_find_object object;
    return find && find((void *)(uintptr_t)address, &object) == 0 ? object.dlfo_map_start : NULL;
}

bool gf_unwind_is_in(const void *address, const char *name, uintptr_t *ret_start, size_t *ret_size)
{
    find_object_fn *const find = gf_load_acquire(&find_object);
    struct dl_find_object object;

    if (!find || find((void *)(uintptr_t)address, &object) != 0)
        return false;
    const char *path = object.dlfo_link_map->l_name, *slash = strrchr(path, '/');
    *ret_start = (uintptr_t)object.dlfo_map_start;
    *ret_size = (uintptr_t)object.dlfo_map_end - *ret_start;
    return gf_begins(slash ? slash + 1 : path, name);
}

/*
 * Reads a word of the stack. If the window does not contain the word, the window is refilled from
 * this address on, because the next frames lie above it.
 */
static bool read_word(void *closure, uintptr_t address, uintptr_t *ret)
{
    struct walk *walk = closure;

    /*
     * Compares without addition, because a register may hold any value, and a sum could overflow.
     */
    if (address < walk->window_at || walk->window_size < sizeof(*ret) ||
        address - walk->window_at > walk->window_size - sizeof(*ret)) {
        walk->window_at = address;
        walk->window_size = walk->peek(address, walk->window, sizeof(walk->window));
        if (walk->window_size < sizeof(*ret))
            return false;
    }
    memcpy(ret, walk->window + (address - walk->window_at), sizeof(*ret));
    return true;
}

/*
 * Finds the caller's frame by the frame pointer. Code without an unwind table, such as the code of
 * a JIT compiler, often keeps a frame pointer.
 */
static bool step_by_pointer(struct walk *walk)
{
    const uintptr_t frame = walk->frame.value[GF_REGISTER_FP];
    uintptr_t next, pc;

    if (frame < walk->frame.value[GF_REGISTER_SP] || frame % sizeof(frame) ||
        !read_word(walk, frame, &next) || !read_word(walk, frame + sizeof(frame), &pc))
        return false;
    walk->frame.value[GF_REGISTER_FP] = next;
    walk->frame.value[GF_REGISTER_SP] = frame + 2 * sizeof(frame);
    walk->frame.pc = gf_dwarf_strip(pc) - 1;
    return true;
}

/*
 * Reads an object's program headers. buf: scratch memory for the ELF header and for the program
 * headers, which usually follow the ELF header.
 */
static void read_segments(const struct dl_find_object *object, unsigned char buf[1024],
                          struct segments *ret)
{
    const uintptr_t start = (uintptr_t)object->dlfo_map_start;
    const size_t got = gf_safe_read_some(start, buf, sizeof(ElfW(Ehdr)) + sizeof(ret->at));
    ElfW(Ehdr) elf;

    _Static_assert(sizeof(elf) + sizeof(ret->at) <= 1024, "buf is too small");
    ret->of = object->dlfo_map_start;
    ret->count = 0;
    memcpy(&elf, buf, sizeof(elf));
    if (got < sizeof(elf) || memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 ||
        elf.e_phentsize != sizeof(ret->at[0]))
        return;
    const size_t count = gf_min((size_t)elf.e_phnum, (size_t)SEGMENTS_MOST);
    if (elf.e_phoff == sizeof(elf) && got >= sizeof(elf) + count * sizeof(ret->at[0]))
        memcpy(ret->at, buf + sizeof(elf), count * sizeof(ret->at[0]));
    else if (!gf_safe_read(start + elf.e_phoff, ret->at, count * sizeof(ret->at[0])))
        return;
    /*
     * The bytes that were read are the program headers only if the first segment maps that part of
     * the file.
     */
    for (size_t i = 0; i < count; i++) {
        const ElfW(Phdr) *segment = &ret->at[i];
        if (segment->p_type == PT_LOAD && segment->p_offset == 0 &&
            object->dlfo_link_map->l_addr + segment->p_vaddr == start &&
            elf.e_phoff <= segment->p_filesz &&
            count * sizeof(*segment) <= segment->p_filesz - elf.e_phoff)
            ret->count = count;
    }
}

/* Finds the object's unwind table, and the bounds of the readable segment that contains it. */
static void find_table(const struct dl_find_object *object, const struct segments *segments,
                       struct gf_table *ret)
{
    const uintptr_t header = (uintptr_t)object->dlfo_eh_frame;

    *ret = (struct gf_table){object->dlfo_eh_frame, object->dlfo_map_start, object->dlfo_map_end};
    for (size_t i = 0; i < segments->count; i++) {
        const ElfW(Phdr) *segment = &segments->at[i];
        const uintptr_t start = object->dlfo_link_map->l_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_R) &&
            header - start < segment->p_filesz) {
            ret->start = (const unsigned char *)start;
            ret->end = ret->start + segment->p_filesz;
            return;
        }
    }
    if (segments->count)
        ret->header = NULL;
}

static void load_segments(struct walk *walk, const struct dl_find_object *object)
{
    if (walk->segments.of == object->dlfo_map_start)
        return;
    walk->window_size = 0;
    read_segments(object, walk->window, &walk->segments);
}

/* Makes the object the current one. Returns false if there are too many objects. */
static bool enter_object(struct walk *walk, const struct dl_find_object *object)
{
    for (size_t i = 0; i < walk->objects; i++)
        if (walk->object[i].start == object->dlfo_map_start) {
            walk->in = &walk->object[i];
            return true;
        }
    if (walk->objects == GF_ARRAY_LEN(walk->object))
        return false;
    walk->in = &walk->object[walk->objects++];
    walk->in->start = object->dlfo_map_start;
    load_segments(walk, object);
    find_table(object, &walk->segments, &walk->in->table);
    return true;
}

static void read_id(struct walk *walk, const struct dl_find_object *object, struct gf_module *ret)
{
    ret->id_length = 0;
    load_segments(walk, object);
    for (size_t i = 0; i < walk->segments.count; i++) {
        const ElfW(Phdr) *segment = &walk->segments.at[i];
        if (segment->p_type != PT_NOTE)
            continue;
        const size_t size =
            gf_safe_read_some(ret->base + segment->p_vaddr, walk->window,
                              gf_min((size_t)segment->p_memsz, sizeof(walk->window)));
        walk->window_size = 0;
        size_t length;
        const unsigned char *id = gf_elf_note_build_id(walk->window, size, &length);
        if (id && length <= sizeof(ret->id)) {
            memcpy(ret->id, id, length);
            ret->id_length = length;
            return;
        }
    }
}

/*
 * Adds the object to ret->module, unless it is already there, and returns its index. Returns
 * GF_UNWIND_MODULES if there are too many modules.
 */
static unsigned add_module(struct walk *walk, const struct dl_find_object *object,
                           struct gf_stack *ret)
{
    for (unsigned i = 0; i < ret->modules; i++)
        if (ret->module[i].start == (uintptr_t)object->dlfo_map_start)
            return i;
    if (ret->modules == GF_UNWIND_MODULES)
        return GF_UNWIND_MODULES;
    struct gf_module *module = &ret->module[ret->modules];
    module->path = object->dlfo_link_map->l_name;
    module->base = object->dlfo_link_map->l_addr;
    module->start = (uintptr_t)object->dlfo_map_start;
    module->end = (uintptr_t)object->dlfo_map_end;
    read_id(walk, object, module);
    return (unsigned)ret->modules++;
}

/* Records the current frame. Returns false if there are too many modules. */
static bool add_frame(struct walk *walk, const struct dl_find_object *object, struct gf_stack *ret)
{
    const unsigned module = add_module(walk, object, ret);

    if (module == GF_UNWIND_MODULES)
        return false;
    ret->frame[ret->frames++] =
        (struct gf_frame){module, walk->frame.pc - ret->module[module].base};
    return true;
}

static bool step_by_table(struct walk *walk)
{
    return walk->in->table.header &&
           gf_dwarf_step(&walk->in->table, &walk->frame, &walk->rows, read_word, walk);
}

/*
 * Walks up the stack and records the frames. Omits frames of the object `skipped` up to the first
 * frame of another object.
 */
static void walk_up(struct walk *walk, const void *skipped, struct gf_stack *ret)
{
    struct dl_find_object object;
    bool inside = true;

    for (unsigned step = 0;; step++) {
        const bool known = gf_load_relaxed(&find_object)((void *)walk->frame.pc, &object) == 0;
        inside = inside && known && object.dlfo_map_start == skipped;
        if (ret->frames == GF_UNWIND_FRAMES || step == STEPS_MOST) {
            ret->cut = true;
            return;
        }
        if (known)
            ret->cut = !enter_object(walk, &object) || (!inside && !add_frame(walk, &object, ret));
        if (ret->cut || (known ? !step_by_table(walk) : !step_by_pointer(walk)))
            return;
    }
}

/* Prepares a walk. Returns false if glibc has no _dl_find_object. */
static bool begin_walk(struct walk *walk, gf_unwind_peek *peek, struct gf_stack *ret)
{
    ret->frames = ret->modules = 0;
    ret->cut = false;
    if (!gf_load_acquire(&find_object))
        return false;
    memset(walk, 0, offsetof(struct walk, rows));
    walk->peek = peek;
    return true;
}

void gf_unwind_stopped(const struct gf_dwarf_frame *first, gf_unwind_peek *peek,
                       struct gf_stack *ret, void *scratch)
{
    struct walk *walk = scratch;

    if (!begin_walk(walk, peek, ret))
        return;
    walk->frame = *first;
    walk_up(walk, NULL, ret);
}

__attribute__((noinline)) void gf_unwind(struct gf_stack *ret, void *scratch)
{
    struct walk *walk = scratch;

    if (!begin_walk(walk, gf_safe_read_some, ret))
        return;
    uintptr_t *v = walk->frame.value;
#if defined(__x86_64__)
    __asm__ volatile("movq %%rbx, %0\n\tmovq %%rbp, %1\n\tmovq %%rsp, %2\n\t"
                     "movq %%r12, %3\n\tmovq %%r13, %4\n\tmovq %%r14, %5\n\tmovq %%r15, %6\n\t"
                     "leaq 0f(%%rip), %%rax\n0:\tmovq %%rax, %7"
                     : "=m"(v[3]), "=m"(v[6]), "=m"(v[7]), "=m"(v[12]), "=m"(v[13]), "=m"(v[14]),
                       "=m"(v[15]), "=m"(walk->frame.pc)
                     :
                     : "rax");
#elif defined(__aarch64__)
    __asm__ volatile("stp x19, x20, [%0, #152]\n\tstp x21, x22, [%0, #168]\n\t"
                     "stp x23, x24, [%0, #184]\n\tstp x25, x26, [%0, #200]\n\t"
                     "stp x27, x28, [%0, #216]\n\tstp x29, x30, [%0, #232]\n\t"
                     "mov x9, sp\n\tstr x9, [%0, #248]\n\tadr x9, 0f\n0:\tstr x9, [%1]"
                     :
                     : "r"(v), "r"(&walk->frame.pc)
                     : "x9", "memory");
#endif
    const void *self = gf_unwind_object((const void *)walk->frame.pc);
    if (self)
        walk_up(walk, self, ret);
    /* The call above must not become a tail call, because the walk reads this function's frame. */
    __asm__ volatile("" ::: "memory");
}
