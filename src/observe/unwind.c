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

struct walk {
    uintptr_t pc;
    uintptr_t value[GF_REGISTERS];
    uintptr_t window_at; /* what is in the window */
    size_t window_size;
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

/* A word of the stack. Frames lie upwards: one reading serves several. */
static bool read_word(void *closure, uintptr_t address, uintptr_t *ret)
{
    struct walk *walk = closure;

    if (address < walk->window_at ||
        address + sizeof(*ret) > walk->window_at + walk->window_size) {
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
        return gf_dwarf_evaluate(row->cfa_expression, walk->value, read_word, walk, 0, false, ret);
    *ret = walk->value[row->cfa_register] + (uintptr_t)row->cfa_offset;
    return true;
}

static bool find_value(struct walk *walk, unsigned i, uintptr_t cfa, const uintptr_t *before,
                       uintptr_t *ret)
{
    const struct gf_row *row = &walk->rows.now;
    const unsigned char *expression = walk->rows.expressions + row->at[i];

    switch (row->rule[i]) {
    case gf_rule_offset:
        return read_word(walk, cfa + (uintptr_t)(intptr_t)row->at[i], ret);
    case gf_rule_value:
        *ret = cfa + (uintptr_t)(intptr_t)row->at[i];
        return true;
    case gf_rule_register:
        *ret = row->at[i] < GF_REGISTERS ? before[row->at[i]] : 0;
        return true;
    case gf_rule_expression:
        return gf_dwarf_evaluate(expression, before, read_word, walk, cfa, true, ret) &&
               read_word(walk, *ret, ret);
    case gf_rule_value_expression:
        return gf_dwarf_evaluate(expression, before, read_word, walk, cfa, true, ret);
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

static bool step_by_table(struct walk *walk, const unsigned char *header)
{
    uintptr_t before[GF_REGISTERS], cfa;

    if (!header || !gf_dwarf_find(header, walk->pc, &walk->rows) || !find_cfa(walk, &cfa) ||
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

static void read_id(const struct dl_find_object *object, struct gf_module *ret)
{
    const unsigned char *start = object->dlfo_map_start;
    const ElfW(Ehdr) *elf = object->dlfo_map_start;

    ret->id_length = 0;
    if (memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0)
        return;
    const ElfW(Phdr) *segment = (const void *)(start + elf->e_phoff);
    for (unsigned i = 0; i < elf->e_phnum; i++, segment++) {
        if (segment->p_type != PT_NOTE)
            continue;
        const unsigned char *at = (const unsigned char *)ret->base + segment->p_vaddr;
        const unsigned char *end = at + segment->p_memsz;
        if ((uintptr_t)at < ret->start || (uintptr_t)end > ret->end)
            continue;
        while (at + sizeof(ElfW(Nhdr)) <= end) {
            const ElfW(Nhdr) *note = (const void *)at;
            const unsigned char *text = at + sizeof(*note) + ((note->n_namesz + 3) & ~3u);
            if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
                note->n_descsz <= sizeof(ret->id)) {
                memcpy(ret->id, text, note->n_descsz);
                ret->id_length = note->n_descsz;
                return;
            }
            at = text + ((note->n_descsz + 3) & ~3u);
        }
    }
}

/* The index of the object in ret; GF_UNWIND_MODULES when there is no more room. */
static unsigned note_module(const struct dl_find_object *object, struct gf_stack *ret)
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
    read_id(object, module);
    return (unsigned)ret->modules++;
}

static void walk_up(struct walk *walk, struct gf_stack *ret)
{
    struct dl_find_object object, self;
    bool inside = true;

    if (find_object((void *)walk->pc, &self) != 0)
        return;
    for (;;) {
        const bool known = find_object((void *)walk->pc, &object) == 0;
        inside = inside && known && object.dlfo_map_start == self.dlfo_map_start;
        if (ret->frames == GF_UNWIND_FRAMES) {
            ret->cut = true;
            return;
        }
        if (!inside && known) {
            const unsigned module = note_module(&object, ret);
            if (module == GF_UNWIND_MODULES) {
                ret->cut = true;
                return;
            }
            ret->frame[ret->frames++] =
                (struct gf_frame){module, walk->pc - ret->module[module].base};
        }
        if (known ? !step_by_table(walk, object.dlfo_eh_frame) : !step_by_pointer(walk))
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
