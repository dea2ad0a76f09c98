/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unwind tables with any content: nothing beyond their bounds is read, and the results fit into
 * their arrays. The input begins with the header's offset and with the distance of the requested
 * address from the header (two bytes each). The table follows. The byte after the table is in a
 * page that cannot be read.
 */
#include "fuzz.h"

#include "preload/trace/dwarf.h"

#include <sys/mman.h>

#define SIZE_MOST ((size_t)64 << 10)

static bool read_word(void *closure, uintptr_t address, uintptr_t *ret)
{
    (void)closure;
    *ret = address * 3;
    return address & 1;
}

static void evaluate(const struct gf_table *table, const unsigned char *expression)
{
    static const uintptr_t registers[GF_REGISTERS] = {1, 2, 3, 4, 5, 6, 7};
    const uintptr_t first = 77;
    uintptr_t value;

    CHECK(expression >= table->start && expression <= table->end);
    gf_dwarf_evaluate(table, expression, registers, read_word, NULL, &first, &value);
    gf_dwarf_evaluate(table, expression, registers, read_word, NULL, NULL, &value);
}

static void look(const struct gf_table *table, uintptr_t pc)
{
    struct gf_rows rows;

    if (!gf_dwarf_find(table, pc, &rows))
        return;
    CHECK(rows.return_column < GF_REGISTERS && rows.now.cfa_register < GF_REGISTERS);
    if (rows.now.cfa_expression)
        evaluate(table, rows.now.cfa_expression);
    for (unsigned i = 0; i < GF_REGISTERS; i++) {
        const unsigned rule = rows.now.rule[i];
        CHECK(rule <= gf_rule_value_expression);
        if (rule == gf_rule_register)
            CHECK(rows.now.at[i] >= 0 && rows.now.at[i] < GF_REGISTERS);
        if (rule == gf_rule_expression || rule == gf_rule_value_expression)
            evaluate(table, table->start + rows.now.at[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char *pages;
    uint16_t header;
    int16_t distance;

    if (size < 4 || size - 4 > SIZE_MOST)
        return 0;
    if (!pages) {
        pages = mmap(NULL, SIZE_MOST + 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                     -1, 0);
        CHECK(pages != MAP_FAILED && mprotect(pages + SIZE_MOST, 65536, PROT_NONE) == 0);
    }
    memcpy(&header, data, sizeof(header));
    memcpy(&distance, data + 2, sizeof(distance));
    const unsigned char *end = pages + SIZE_MOST, *start = end - (size - 4);
    memcpy(pages + SIZE_MOST - (size - 4), data + 4, size - 4);
    const struct gf_table table = {start + header % (size - 4 + 1), start, end};
    look(&table, (uintptr_t)table.header + (uintptr_t)distance);
    /* Requests the entries at the start of the sorted table, as if the table had the usual form. */
    for (size_t at = 12; at + 8 <= (size_t)(end - table.header) && at < 12 + 64 * 8; at += 8) {
        int32_t first;
        memcpy(&first, table.header + at, sizeof(first));
        look(&table, (uintptr_t)table.header + (uintptr_t)(intptr_t)first);
        look(&table, (uintptr_t)table.header + (uintptr_t)(intptr_t)first + 7);
    }
    return 0;
}
