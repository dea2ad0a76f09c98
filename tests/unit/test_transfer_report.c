/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "engine/report/sections.h"
#include "engine/report/summary.h"

#include <string.h>

#define MIB ((uint64_t)1 << 20)
#define SECOND UINT64_C(1000000000)

static struct gf_copy_counts tally(uint64_t calls, uint64_t bytes, uint64_t ns)
{
    return (struct gf_copy_counts){
        .calls = calls, .bytes = bytes, .timed_bytes = ns ? bytes : 0, .timed_ns = ns};
}

static bool three_hooks(size_t i, struct gf_hook_counts *ret)
{
    static const struct gf_hook_counts hooks[] = {{.name = "cuMemcpyHtoD_v2",
                                                   .calls = 10,
                                                   .copies = 10,
                                                   .bytes = 1000,
                                                   .offered = 2,
                                                   .offered_bytes = 900},
                                                  {.name = "cuInit", .calls = 1, .copies = 1},
                                                  {.name = "cuMemcpyBatchAsync_v2",
                                                   .calls = 1,
                                                   .copies = 5,
                                                   .bytes = 500,
                                                   .offered = 1,
                                                   .offered_bytes = 100,
                                                   .unfit = 2,
                                                   .unfit_bytes = 350}};
    if (i >= GF_ARRAY_LEN(hooks))
        return false;
    *ret = hooks[i];
    return true;
}

static bool no_hook(size_t i, struct gf_hook_counts *ret)
{
    (void)i, (void)ret;
    return false;
}

static const char *written(const struct gf_report_transfers *report)
{
    static char buf[8192];
    struct gf_json json = {.buf = buf, .size = sizeof(buf)};
    gf_json_begin(&json, NULL, '{');
    gf_report_transfers_put(&json, report, three_hooks);
    gf_json_end(&json, '}');
    assert_true(gf_json_close(&json));
    return buf;
}

#define HAS(text, part) assert_non_null(strstr(text, part))

static void nothing_is_null(void **state)
{
    (void)state;
    static const struct gf_report_transfers none;
    char line[256] = "x";
    assert_string_equal(written(&none), "{\"transfers\":null}");
    gf_summary_transfers(&none, NULL, GF_TEST_INTO(line));
    assert_string_equal(line, "");
}

static void ways_and_reasons(void **state)
{
    (void)state;
    static struct gf_report_transfers r = {.known = true, .min_bytes = 4 << 20};
    struct gf_copy_stats *c = &r.copies;
    c->staged[gf_direction_h2d][0] = tally(1, 100 * MIB, SECOND / 100);
    c->staged[gf_direction_h2d][1] = tally(3, 300 * MIB, SECOND * 3 / 100);
    c->rest[gf_direction_h2d] = tally(1, 7, 0);
    c->bypassed[gf_direction_h2d][0][gf_bypass_pinned] = tally(1, 50, 0);
    c->bypassed[gf_direction_h2d][1][gf_bypass_pinned] = tally(1, 60, 1000);
    c->bypassed[gf_direction_h2d][0][gf_bypass_capture] = tally(2, 20, 0);
    c->bypassed[gf_direction_h2d][1][gf_bypass_capture] = tally(2, 20, 0);
    c->bypassed[gf_direction_h2d][1][gf_bypass_full] = tally(1, 1, 0);
    c->bypassed[gf_direction_d2h][1][gf_bypass_ends] = tally(4, 44, 0);
    c->stream_waits = 5, c->ring_grown = 2, c->ring_shrunk = 1;
    r.state = (struct gf_transfer_state){
        .ring_bytes = 10, .ring_limit = 20, .ring_most = 30, .rings = 1, .helpers = 7};
    r.state.ring_held[1] = 8, r.state.ring_held[GF_NODE_BYTES_UNKNOWN] = 2;
    const char *text = written(&r);
    HAS(text, "\"min_bytes\":4194304,\"staging_off\":null,\"ring\":{\"rings\":1,\"bytes\":10,"
              "\"peak_bytes\":30,\"limit_bytes\":20,\"grown\":2,\"shrunk\":1,\"stream_waits\":5,"
              "\"by_node\":{\"1\":8,\"unknown\":2}},"
              "\"helpers\":7");
    HAS(text, "\"to_device\":{\"staged\":{\"calls\":4,\"bytes\":419430400,\"duration_s\":0.040,"
              "\"gb_per_s\":10.485},\"inaccessible_bytes\":7,"
              "\"pinned\":{\"calls\":2,\"bytes\":110,\"duration_s\":0.000},"
              "\"driver\":{\"calls\":5,\"bytes\":41,\"duration_s\":0.000},"
              "\"reasons\":{\"capture\":{\"calls\":4,\"bytes\":40,\"duration_s\":0.000},"
              "\"full\":{\"calls\":1,\"bytes\":1,\"duration_s\":0.000}}");
    HAS(text, "\"from_device\":{\"staged\":{\"calls\":0,\"bytes\":0,\"duration_s\":0.000}");
    HAS(text, "\"other\":{\"calls\":4,\"bytes\":44");
    r.min_bytes = SIZE_MAX, r.state.off = "by option";
    HAS(written(&r), "\"min_bytes\":null,\"staging_off\":\"by option\"");
}

static void small_ones_are_what_is_left(void **state)
{
    (void)state;
    static struct gf_report_transfers r = {.known = true};
    const char *text = written(&r);
    HAS(text, "\"by_function\":{\"cuMemcpyHtoD_v2\":{\"copies\":10,\"bytes\":1000},"
              "\"cuMemcpyBatchAsync_v2\":{\"copies\":5,\"bytes\":500}}");
    HAS(text,
        "\"small\":{\"copies\":10,\"bytes\":150},\"unsupported\":{\"copies\":2,\"bytes\":350}");
}

/* Copies of unknown duration are not counted. */
static void saving(void **state)
{
    (void)state;
    static struct gf_copy_stats c;
    uint64_t rate;
    assert_int_equal(gf_transfer_sums_saving_ns(&c, &rate), 0);
    assert_int_equal(rate, 0);
    c.staged[gf_direction_h2d][1] = tally(1, 100, SECOND);
    c.bypassed[gf_direction_h2d][1][gf_bypass_crowded] = tally(1, 100, SECOND);
    c.bypassed[gf_direction_h2d][1][gf_bypass_pinned] = tally(1, 100, SECOND);
    c.bypassed[gf_direction_h2d][1][gf_bypass_ends] = tally(1, 100, SECOND);
    c.staged[gf_direction_h2d][0] = tally(1, 1000, SECOND); /* 1000 bytes a second */
    /* copies from the GPU wait for its work */
    c.staged[gf_direction_d2h][1] = tally(1, 100, SECOND);
    c.bypassed[gf_direction_d2h][0][gf_bypass_pinned] = tally(1, 100, SECOND);
    assert_int_equal(gf_transfer_sums_saving_ns(&c, &rate), 2 * SECOND);
    assert_int_equal(rate, 0);
    c.bypassed[gf_direction_h2d][0][gf_bypass_pinned] = tally(1, 8000, 2 * SECOND);
    assert_int_equal(gf_transfer_sums_saving_ns(&c, &rate), 2 * SECOND + SECOND * 3 / 4);
    assert_int_equal(rate, 4000);
    c.bypassed[gf_direction_h2d][0][gf_bypass_pinned] = tally(1, 800, 2 * SECOND);
    /* Pinned copies were slower than staging. */
    assert_int_equal(gf_transfer_sums_saving_ns(&c, &rate), 2 * SECOND);
}

static void the_line(void **state)
{
    (void)state;
    static struct gf_report_transfers r = {.known = true};
    struct gf_copy_stats *c = &r.copies;
    char line[512];
    gf_summary_transfers(&r, no_hook, GF_TEST_INTO(line));
    assert_string_equal(line, "");
    c->bypassed[gf_direction_d2h][1][gf_bypass_ends] = tally(4, 44, 0);
    gf_summary_transfers(&r, no_hook, GF_TEST_INTO(line));
    assert_string_equal(line, "");
    c->staged[gf_direction_h2d][1] = tally(3, 12288 * MIB, SECOND / 2);
    c->bypassed[gf_direction_h2d][1][gf_bypass_pinned] = tally(2, 3 * MIB, 5);
    c->bypassed[gf_direction_h2d][1][gf_bypass_capture] = tally(2, 8 * MIB, SECOND / 1000);
    c->bypassed[gf_direction_h2d][0][gf_bypass_small] = tally(1, MIB, 0);
    c->bypassed[gf_direction_d2h][0][gf_bypass_pinned] = tally(2, 5 * MIB, 0);
    gf_summary_transfers(&r, no_hook, GF_TEST_INTO(line));
    assert_string_equal(
        line, "copied to the GPU: 12.0 GiB staged at 25.7 GB/s, 3 MiB from or to pinned memory, "
              "9 MiB by the driver at 8.3 GB/s (below the size from which staging pays: 1; the "
              "stream is being "
              "captured: 2); copied from the GPU: 5 MiB from or to pinned memory; pinning the "
              "source (pin_memory=True) would save at most 0.5 s");
    /* Reasons name the threshold. */
    r.state.threads = 2;
    r.state.least[gf_direction_h2d] = 8 * MIB;
    memset(c, 0, sizeof(*c));
    c->bypassed[gf_direction_h2d][0][gf_bypass_small] = tally(4, 16 * MIB, SECOND / 1000);
    gf_summary_transfers(&r, no_hook, GF_TEST_INTO(line));
    assert_non_null(strstr(line, "(below 8 MiB, from which 2 copying threads stage: 4)"));
    r.state.least[gf_direction_h2d] = MIB;
    gf_summary_transfers(&r, no_hook, GF_TEST_INTO(line));
    assert_non_null(strstr(line, "(below the size from which staging pays: 4)"));
    /* A slow rate is not 0.0 GB/s. */
    memset(c, 0, sizeof(*c));
    c->staged[gf_direction_h2d][0] = tally(1, 8 * MIB, SECOND / 10);
    c->bypassed[gf_direction_h2d][0][gf_bypass_capture] = tally(1, MIB, 2 * SECOND);
    gf_summary_transfers(&r, no_hook, GF_TEST_INTO(line));
    assert_string_equal(line, "copied to the GPU: 8 MiB staged at 83 MB/s, 1 MiB by the driver at "
                              "less than 1 MB/s (the stream is being captured: 1)");
    memset(c, 0, sizeof(*c));
    c->staged[gf_direction_d2h][0] = tally(3, 10 * MIB, 0);
    r.state.ring_most = 16 * MIB;
    gf_summary_transfers(&r, no_hook, GF_TEST_INTO(line));
    assert_string_equal(line, "copied from the GPU: 10 MiB staged; staging ring of 16 MiB");
    c->stream_waits = 2;
    gf_summary_transfers(&r, no_hook, GF_TEST_INTO(line));
    assert_string_equal(
        line, "copied from the GPU: 10 MiB staged; staging ring of 16 MiB, too small for 2 copies");
    r.state.ring_most = 0;
    *c = (struct gf_copy_stats){
        .pinned = {.large_calls = 1, .large_bytes = 64 * MIB, .large_ns = 12345678}};
    gf_summary_transfers(&r, no_hook, GF_TEST_INTO(line));
    assert_string_equal(line, "64 MiB of pinned memory served in 0.012 s");
}

static bool many_small(size_t i, struct gf_hook_counts *ret)
{
    static const struct gf_hook_counts hooks[] = {{.name = "cuInit", .calls = 7, .copies = 7},
                                                  {.name = "cuMemcpyHtoD_v2",
                                                   .calls = 900,
                                                   .copies = 900,
                                                   .bytes = 430 * MIB,
                                                   .offered = 100,
                                                   .offered_bytes = 30 * MIB}};
    if (i >= GF_ARRAY_LEN(hooks))
        return false;
    *ret = hooks[i];
    return true;
}

/* The summary also mentions small copies. */
static void the_line_of_small_copies(void **state)
{
    (void)state;
    static struct gf_report_transfers r = {.known = true, .min_bytes = MIB};
    char line[512];
    gf_summary_transfers(&r, three_hooks, GF_TEST_INTO(line)); /* the line needs 150 bytes */
    assert_string_equal(line, "");
    gf_summary_transfers(&r, many_small, GF_TEST_INTO(line));
    assert_string_equal(line, "copies: 400 MiB by the driver in 800 copies of less than 1 MiB");
    r.copies.bypassed[gf_direction_h2d][0][gf_bypass_off] = tally(5, 30 * MIB, 0);
    r.state.off = "observing only";
    gf_summary_transfers(&r, many_small, GF_TEST_INTO(line));
    assert_string_equal(
        line, "copied to the GPU: 30 MiB by the driver (staging is off, observing only: 5); "
              "400 MiB by the driver in 800 copies of less than 1 MiB");
    r.copies = (struct gf_copy_stats){0};
    r.min_bytes = SIZE_MAX;
    r.state.off = "by option";
    gf_summary_transfers(&r, many_small, GF_TEST_INTO(line));
    assert_string_equal(line,
                        "copies: 400 MiB by the driver in 800 copies (staging is off, by option)");
}

static void pinned_memory(void **state)
{
    (void)state;
    static struct gf_report_transfers r = {.known = true};
    r.copies.pinned = (struct gf_pinned_stats){.large_calls = 1,
                                               .large_bytes = 2,
                                               .large_ns = 3000000,
                                               .small_calls = 4,
                                               .small_bytes = 5,
                                               .placed_calls = 6,
                                               .placed_bytes = 7,
                                               .trims = 9};
    r.copies.pinned.driver_calls[gf_pinned_memory] = 10;
    r.copies.pinned.driver_bytes[gf_pinned_memory] = 11;
    r.state.pinned_kept = 8;
    r.state.pinned_held[1] = 12, r.state.pinned_held[GF_NODE_BYTES_UNKNOWN] = 13;
    HAS(written(&r),
        "\"pinned_memory\":{\"large\":{\"calls\":1,\"bytes\":2,\"duration_s\":0.003},"
        "\"small\":{\"calls\":4,\"bytes\":5},\"reasons\":{\"memory\":{\"calls\":10,\"bytes\":11}},"
        "\"prefaulted\":{\"calls\":6,\"bytes\":7},\"cached_bytes\":8,\"trims\":9,"
        "\"in_use_by_node\":{\"1\":12,\"unknown\":13}}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_null),
        cmocka_unit_test(ways_and_reasons),
        cmocka_unit_test(small_ones_are_what_is_left),
        cmocka_unit_test(saving),
        cmocka_unit_test(the_line),
        cmocka_unit_test(the_line_of_small_copies),
        cmocka_unit_test(pinned_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
