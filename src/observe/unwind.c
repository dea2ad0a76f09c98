/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/unwind.h"

#include "base/symbols.h"
#include "observe/dwarf.h"
#include "observe/peek.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>

typedef int find_object_fn(void *pc, struct dl_find_object *ret);

static find_object_fn *find_object;

#define SEGMENTS_MOST 16 /* of an object; more are not looked at */
#define STEPS_MOST (4 * GF_UNWIND_FRAMES) /* frames without a table, and our own, are not listed */

/* An object's program headers, a copy: a file may put them where nothing is mapped. */
struct segments {
    const void *of; /* where the object begins */
    ElfW(Phdr) at[SEGMENTS_MOST];
    size_t count;
};

struct walk {
    uintptr_t pc;
    uintptr_t value[GF_REGISTERS];
    uintptr_t window_at; /* what is in the window */
    size_t window_size;
    struct object {
        const void *start;
        struct gf_table table;
    } object[GF_UNWIND_MODULES + 1], *in; /* those that pc was in, and where it is */
    size_t objects;
    struct segments segments; /* of the one that was read last */
    struct gf_rows rows;
    unsigned char window[1024];
};

_Static_assert(sizeof(struct walk) <= GF_UNWIND_SCRATCH, "what callers set aside is too small");

void gf_unwind_open(void)
{
    struct gf_symbol found;
    if (!find_object && gf_symbol_find("_dl_find_object", NULL, &found))
        __atomic_store_n(&find_object, (find_object_fn *)found.address, __ATOMIC_RELEASE);
}

const void *gf_unwind_object(const void *address)
{
    find_object_fn *const find = __atomic_load_n(&find_object, __ATOMIC_ACQUIRE);
    struct dl_find_object object;
    return find && find((void *)(uintptr_t)address, &object) == 0 ? object.dlfo_map_start : NULL;
}

/* A word of the stack. Frames lie upwards: one reading serves several. */
static bool read_word(void *closure, uintptr_t address, uintptr_t *ret)
{
    struct walk *walk = closure;

    /* A register may hold anything: near the top of all addresses a sum would begin anew. */
    if (address < walk->window_at || walk->window_size < sizeof(*ret) ||
        address - walk->window_at > walk->window_size - sizeof(*ret)) {
        walk->window_at = address;
        walk->window_size = gf_peek_some(address, walk->window, sizeof(walk->window));
        if (walk->window_size < sizeof(*ret))
            return false;
    }
    memcpy(ret, walk->window + (address - walk->window_at), sizeof(*ret));
    return true;
}

static bool find_cfa(struct walk *walk, uintptr_t *ret)
{
    const struct gf_row *row = &walk->rows.now;

    if (row->cfa_expression)
        return gf_dwarf_evaluate(&walk->in->table, row->cfa_expression, walk->value, read_word, walk,
                                 NULL, ret);
    *ret = walk->value[row->cfa_register] + (uintptr_t)row->cfa_offset;
    return true;
}

static bool find_value(struct walk *walk, unsigned i, uintptr_t cfa, const uintptr_t *before,
                       uintptr_t *ret)
{
    const struct gf_row *row = &walk->rows.now;
    const unsigned char *expression = walk->in->table.start + row->at[i];

    switch (row->rule[i]) {
    case gf_rule_offset:
        return read_word(walk, cfa + (uintptr_t)(intptr_t)row->at[i], ret);
    case gf_rule_value:
        *ret = cfa + (uintptr_t)(intptr_t)row->at[i];
        return true;
    case gf_rule_register:
        *ret = before[row->at[i]];
        return true;
    case gf_rule_expression:
        return gf_dwarf_evaluate(&walk->in->table, expression, before, read_word, walk, &cfa, ret) &&
               read_word(walk, *ret, ret);
    case gf_rule_value_expression:
        return gf_dwarf_evaluate(&walk->in->table, expression, before, read_word, walk, &cfa, ret);
    default:
        return true;
    }
}

/* Pointer authentication signs the upper bits. */
static uintptr_t strip(uintptr_t address)
{
#if defined(__aarch64__)
    return address & ((UINT64_C(1) << 48) - 1);
#else
    return address;
#endif
}

static bool step_by_table(struct walk *walk)
{
    uintptr_t before[GF_REGISTERS], cfa;

    if (!walk->in->table.header || !gf_dwarf_find(&walk->in->table, walk->pc, &walk->rows) ||
        !find_cfa(walk, &cfa) ||
        cfa <= walk->value[GF_REGISTER_SP] ||
        walk->rows.now.rule[walk->rows.return_column] == gf_rule_undefined)
        return false;
    memcpy(before, walk->value, sizeof(before));
    for (unsigned i = 0; i < GF_REGISTERS; i++)
        if (!find_value(walk, i, cfa, before, &walk->value[i]))
            return false;
    walk->value[GF_REGISTER_SP] = cfa;
    walk->pc = strip(walk->value[walk->rows.return_column]) - !walk->rows.signal;
    return walk->pc + 1 > 1;
}

/* Code without a table, as compilers at run time make it, often keeps a frame pointer. */
static bool step_by_pointer(struct walk *walk)
{
    const uintptr_t frame = walk->value[GF_REGISTER_FP];
    uintptr_t next, pc;

    if (frame < walk->value[GF_REGISTER_SP] || frame % sizeof(frame) ||
        !read_word(walk, frame, &next) || !read_word(walk, frame + sizeof(frame), &pc))
        return false;
    walk->value[GF_REGISTER_FP] = next;
    walk->value[GF_REGISTER_SP] = frame + 2 * sizeof(frame);
    walk->pc = strip(pc) - 1;
    return true;
}

/* buf: of any content, for the header of the file and what usually stands behind it. */
static void read_segments(const struct dl_find_object *object, unsigned char buf[1024],
                          struct segments *ret)
{
    const uintptr_t start = (uintptr_t)object->dlfo_map_start;
    const size_t got = gf_peek_some(start, buf, sizeof(ElfW(Ehdr)) + sizeof(ret->at));
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
    else if (!gf_peek(start + elf.e_phoff, ret->at, count * sizeof(ret->at[0])))
        return;
    /* They are what stands there only if the first segment reaches so far into the file. */
    for (size_t i = 0; i < count; i++) {
        const ElfW(Phdr) *segment = &ret->at[i];
        if (segment->p_type == PT_LOAD && segment->p_offset == 0 &&
            object->dlfo_link_map->l_addr + segment->p_vaddr == start &&
            elf.e_phoff <= segment->p_filesz &&
            count * sizeof(*segment) <= segment->p_filesz - elf.e_phoff)
            ret->count = count;
    }
}

/* The readable segment in which the header of the table lies. */
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

static void look_at(struct walk *walk, const struct dl_find_object *object)
{
    if (walk->segments.of == object->dlfo_map_start)
        return;
    walk->window_size = 0;
    read_segments(object, walk->window, &walk->segments);
}

/* False where there were too many. */
static bool enter(struct walk *walk, const struct dl_find_object *object)
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
    look_at(walk, object);
    find_table(object, &walk->segments, &walk->in->table);
    return true;
}

/* True with the build id in ret if it is among these notes. */
static bool find_id(const unsigned char *at, size_t size, struct gf_module *ret)
{
    ElfW(Nhdr) note;

    while (size >= sizeof(note)) {
        memcpy(&note, at, sizeof(note));
        const size_t name = sizeof(note) + (((size_t)note.n_namesz + 3) & ~(size_t)3);
        const size_t whole = name + (((size_t)note.n_descsz + 3) & ~(size_t)3);
        if (whole > size)
            return false;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            note.n_descsz <= sizeof(ret->id)) {
            memcpy(ret->id, at + name, note.n_descsz);
            ret->id_length = note.n_descsz;
            return true;
        }
        at += whole;
        size -= whole;
    }
    return false;
}

static void read_id(struct walk *walk, const struct dl_find_object *object, struct gf_module *ret)
{
    ret->id_length = 0;
    look_at(walk, object);
    for (size_t i = 0; i < walk->segments.count; i++) {
        const ElfW(Phdr) *segment = &walk->segments.at[i];
        if (segment->p_type != PT_NOTE)
            continue;
        const size_t size = gf_peek_some(ret->base + segment->p_vaddr, walk->window,
                                         gf_min((size_t)segment->p_memsz, sizeof(walk->window)));
        walk->window_size = 0;
        if (find_id(walk->window, size, ret))
            return;
    }
}

/* The index of the object in ret; GF_UNWIND_MODULES when there is no more room. */
static unsigned note_module(struct walk *walk, const struct dl_find_object *object,
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

/* False where there is no room for it. */
static bool note_frame(struct walk *walk, const struct dl_find_object *object, struct gf_stack *ret)
{
    const unsigned module = note_module(walk, object, ret);

    if (module == GF_UNWIND_MODULES)
        return false;
    ret->frame[ret->frames++] = (struct gf_frame){module, walk->pc - ret->module[module].base};
    return true;
}

static void walk_up(struct walk *walk, struct gf_stack *ret)
{
    struct dl_find_object object, self;
    bool inside = true;

    if (find_object((void *)walk->pc, &self) != 0)
        return;
    for (unsigned step = 0;; step++) {
        const bool known = find_object((void *)walk->pc, &object) == 0;
        inside = inside && known && object.dlfo_map_start == self.dlfo_map_start;
        if (ret->frames == GF_UNWIND_FRAMES || step == STEPS_MOST) {
            ret->cut = true;
            return;
        }
        if (known)
            ret->cut = !enter(walk, &object) || (!inside && !note_frame(walk, &object, ret));
        if (ret->cut || (known ? !step_by_table(walk) : !step_by_pointer(walk)))
            return;
    }
}

__attribute__((noinline)) void gf_unwind(struct gf_stack *ret, void *scratch)
{
    struct walk *walk = scratch;

    ret->frames = ret->modules = 0;
    ret->cut = false;
    if (!__atomic_load_n(&find_object, __ATOMIC_ACQUIRE))
        return;
    memset(walk, 0, offsetof(struct walk, rows));
#if defined(__x86_64__)
    uintptr_t *v = walk->value;
    __asm__ volatile("movq %%rbx, %0\n\tmovq %%rbp, %1\n\tmovq %%rsp, %2\n\t"
                     "movq %%r12, %3\n\tmovq %%r13, %4\n\tmovq %%r14, %5\n\tmovq %%r15, %6\n\t"
                     "leaq 0f(%%rip), %%rax\n0:\tmovq %%rax, %7"
                     : "=m"(v[3]), "=m"(v[6]), "=m"(v[7]), "=m"(v[12]), "=m"(v[13]), "=m"(v[14]),
                       "=m"(v[15]), "=m"(walk->pc)
                     :
                     : "rax");
#elif defined(__aarch64__)
    __asm__ volatile("stp x19, x20, [%0, #152]\n\tstp x21, x22, [%0, #168]\n\t"
                     "stp x23, x24, [%0, #184]\n\tstp x25, x26, [%0, #200]\n\t"
                     "stp x27, x28, [%0, #216]\n\tstp x29, x30, [%0, #232]\n\t"
                     "mov x9, sp\n\tstr x9, [%0, #248]\n\tadr x9, 0f\n0:\tstr x9, [%1]"
                     :
                     : "r"(walk->value), "r"(&walk->pc)
                     : "x9", "memory");
#endif
    walk_up(walk, ret);
}
