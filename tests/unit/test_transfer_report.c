/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "observe/report_transfers.h"

#include <string.h>

#define MIB ((uint64_t)1 << 20)
#define SECOND UINT64_C(1000000000)

static struct gf_tally_copy tally(uint64_t calls, uint64_t bytes, uint64_t ns)
{
    return (struct gf_tally_copy){
        .calls = calls, .bytes = bytes, .timed_bytes = ns ? bytes : 0, .timed_ns = ns};
}

static bool two_hooks(gf_tally_see *see, void *closure)
{
    const struct gf_tally linear = {.name = "cuMemcpyHtoD_v2",
                                    .calls = 10,
                                    .copies = 10,
                                    .bytes = 1000,
                                    .offered = 2,
                                    .offered_bytes = 900};
    const struct gf_tally batch = {.name = "cuMemcpyBatchAsync_v2",
                                   .calls = 1,
                                   .copies = 5,
                                   .bytes = 500,
                                   .offered = 1,
                                   .offered_bytes = 100,
                                   .unfit = 2,
                                   .unfit_bytes = 350};
    const struct gf_tally none = {.name = "cuInit", .calls = 1, .copies = 1};
    return see(closure, &linear) && see(closure, &none) && see(closure, &batch);
}

static void each_hook(gf_tally_see *see, void *closure)
{
    two_hooks(see, closure);
}

static const char *written(const struct gf_transfer_report *report)
{
    static char buf[8192];
    struct gf_json json = {.buf = buf, .size = sizeof(buf)};
    gf_json_begin(&json, NULL, '{');
    gf_transfer_report_put(&json, report, each_hook);
    gf_json_end(&json, '}');
    assert_true(gf_json_close(&json));
    return buf;
}

#define HAS(text, part) assert_non_null(strstr(text, part))

static void nothing_is_null(void **state)
{
    (void)state;
    static const struct gf_transfer_report none;
    char line[256] = "x";
    assert_string_equal(written(&none), "{\"transfers\":null}");
    gf_transfer_report_say(&none, NULL, line, sizeof(line));
    assert_string_equal(line, "");
}

static void ways_and_reasons(void **state)
{
    (void)state;
    static struct gf_transfer_report r = {.known = true, .least = 4 << 20};
    struct gf_transfer_stats *c = &r.copies;
    c->staged[gf_direction_h2d][0] = tally(1, 100 * MIB, SECOND / 100);
    c->staged[gf_direction_h2d][1] = tally(3, 300 * MIB, SECOND * 3 / 100);
    c->rest[gf_direction_h2d] = tally(1, 7, 0);
    c->forwarded[gf_direction_h2d][0][gf_forward_pinned] = tally(1, 50, 0);
    c->forwarded[gf_direction_h2d][1][gf_forward_pinned] = tally(1, 60, 1000);
    c->forwarded[gf_direction_h2d][0][gf_forward_capture] = tally(2, 20, 0);
    c->forwarded[gf_direction_h2d][1][gf_forward_capture] = tally(2, 20, 0);
    c->forwarded[gf_direction_h2d][1][gf_forward_full] = tally(1, 1, 0);
    c->forwarded[gf_direction_d2h][1][gf_forward_ends] = tally(4, 44, 0);
    c->stream_waits = 5, c->ring_grown = 2, c->ring_shrunk = 1;
    r.state = (struct gf_transfer_state){
        .ring_bytes = 10, .ring_limit = 20, .ring_most = 30, .rings = 1, .helpers = 7};
    r.state.ring_held[1] = 8, r.state.ring_held[GF_LARGE_NODES] = 2;
    const char *text = written(&r);
    HAS(text, "\"least_bytes\":4194304,\"staging_off\":null,\"ring\":{\"rings\":1,\"bytes\":10,"
              "\"most_bytes\":30,\"limit_bytes\":20,\"grown\":2,\"shrunk\":1,\"stream_waits\":5,"
              "\"by_node\":{\"1\":8,\"unknown\":2}},"
              "\"helpers\":7");
    HAS(text, "\"to_device\":{\"staged\":{\"calls\":4,\"bytes\":419430400,\"held_up_s\":0.040,"
              "\"gb_per_s\":10.485},\"staged_rest\":7,"
              "\"pinned\":{\"calls\":2,\"bytes\":110,\"held_up_s\":0.000},"
              "\"driver\":{\"calls\":5,\"bytes\":41,\"held_up_s\":0.000},"
              "\"reasons\":{\"capture\":{\"calls\":4,\"bytes\":40,\"held_up_s\":0.000},"
              "\"full\":{\"calls\":1,\"bytes\":1,\"held_up_s\":0.000}}");
    HAS(text, "\"from_device\":{\"staged\":{\"calls\":0,\"bytes\":0,\"held_up_s\":0.000}");
    HAS(text, "\"neither\":{\"calls\":4,\"bytes\":44");
    r.least = SIZE_MAX, r.state.off = "by option";
    HAS(written(&r), "\"least_bytes\":null,\"staging_off\":\"by option\"");
}

static void small_ones_are_what_is_left(void **state)
{
    (void)state;
    static struct gf_transfer_report r = {.known = true};
    const char *text = written(&r);
    HAS(text, "\"entries\":{\"cuMemcpyHtoD_v2\":{\"copies\":10,\"bytes\":1000},"
              "\"cuMemcpyBatchAsync_v2\":{\"copies\":5,\"bytes\":500}}");
    HAS(text, "\"small\":{\"copies\":10,\"bytes\":150},\"unfit\":{\"copies\":2,\"bytes\":350}");
}

/* What is not known is not claimed. */
static void saving(void **state)
{
    (void)state;
    static struct gf_transfer_stats c;
    uint64_t rate;
    assert_int_equal(gf_transfer_report_saving_ns(&c, &rate), 0);
    assert_int_equal(rate, 0);
    c.staged[gf_direction_h2d][1] = tally(1, 100, SECOND);
    c.forwarded[gf_direction_d2h][1][gf_forward_crowded] = tally(1, 100, SECOND);
    c.forwarded[gf_direction_d2h][1][gf_forward_pinned] = tally(1, 100, SECOND);
    c.forwarded[gf_direction_d2h][1][gf_forward_ends] = tally(1, 100, SECOND);
    c.staged[gf_direction_d2h][0] = tally(1, 1000, SECOND); /* 1000 bytes a second */
    assert_int_equal(gf_transfer_report_saving_ns(&c, &rate), 2 * SECOND);
    assert_int_equal(rate, 0);
    c.forwarded[gf_direction_h2d][0][gf_forward_pinned] = tally(1, 8000, 2 * SECOND);
    assert_int_equal(gf_transfer_report_saving_ns(&c, &rate), 2 * SECOND + SECOND * 3 / 4);
    assert_int_equal(rate, 4000);
    c.forwarded[gf_direction_h2d][0][gf_forward_pinned] = tally(1, 800, 2 * SECOND);
    assert_int_equal(gf_transfer_report_saving_ns(&c, &rate), 2 * SECOND); /* slower than ours */
}

static void the_line(void **state)
{
    (void)state;
    static struct gf_transfer_report r = {.known = true};
    struct gf_transfer_stats *c = &r.copies;
    char line[512];
    gf_transfer_report_say(&r, NULL, line, sizeof(line));
    assert_string_equal(line, "");
    c->forwarded[gf_direction_d2h][1][gf_forward_ends] = tally(4, 44, 0);
    gf_transfer_report_say(&r, NULL, line, sizeof(line));
    assert_string_equal(line, "");
    c->staged[gf_direction_h2d][1] = tally(3, 12288 * MIB, SECOND / 2);
    c->forwarded[gf_direction_h2d][1][gf_forward_pinned] = tally(2, 3 * MIB, 5);
    c->forwarded[gf_direction_h2d][1][gf_forward_capture] = tally(2, 8 * MIB, SECOND / 1000);
    c->forwarded[gf_direction_h2d][0][gf_forward_small] = tally(1, MIB, 0);
    c->forwarded[gf_direction_d2h][0][gf_forward_pinned] = tally(2, 5 * MIB, 0);
    gf_transfer_report_say(&r, NULL, line, sizeof(line));
    assert_string_equal(
        line, "copied to the GPU: 12.0 GiB staged at 25.7 GB/s, 3 MiB from or to pinned memory, "
              "9 MiB by the driver at 8.3 GB/s (smaller than what pays: 1; the stream is being "
              "captured: 2); copied from the GPU: 5 MiB from or to pinned memory; pinned at its "
              "source, memory would save at most 0.5 s");
    memset(c, 0, sizeof(*c));
    c->staged[gf_direction_d2h][0] = tally(3, 10 * MIB, 0);
    r.state.ring_most = 16 * MIB;
    gf_transfer_report_say(&r, NULL, line, sizeof(line));
    assert_string_equal(line, "copied from the GPU: 10 MiB staged; ring of 16 MiB");
    c->stream_waits = 2;
    gf_transfer_report_say(&r, NULL, line, sizeof(line));
    assert_string_equal(line, "copied from the GPU: 10 MiB staged; ring of 16 MiB, too small for 2");
    r.state.ring_most = 0;
    r.pinned.stats =
        (struct gf_pinned_stats){.large_calls = 1, .large_bytes = 64 * MIB, .large_ns = 12345678};
    memset(c, 0, sizeof(*c));
    gf_transfer_report_say(&r, NULL, line, sizeof(line));
    assert_string_equal(line, "64 MiB of pinned memory served in 0.012 s");
}

static void many_small(gf_tally_see *see, void *closure)
{
    const struct gf_tally small = {.name = "cuMemcpyHtoD_v2",
                                   .calls = 900,
                                   .copies = 900,
                                   .bytes = 430 * MIB,
                                   .offered = 100,
                                   .offered_bytes = 30 * MIB};
    const struct gf_tally none = {.name = "cuInit", .calls = 7, .copies = 7};
    see(closure, &none);
    see(closure, &small);
}

/* Whoever copies little at a time is told what became of it. */
static void the_line_of_small_copies(void **state)
{
    (void)state;
    static struct gf_transfer_report r = {.known = true, .least = MIB};
    char line[512];
    gf_transfer_report_say(&r, each_hook, line, sizeof(line)); /* 150 bytes */
    assert_string_equal(line, "");
    gf_transfer_report_say(&r, many_small, line, sizeof(line));
    assert_string_equal(line, "copies: 400 MiB by the driver in 800 copies of less than 1 MiB");
    r.copies.forwarded[gf_direction_h2d][0][gf_forward_off] = tally(5, 30 * MIB, 0);
    r.state.off = "observing only";
    gf_transfer_report_say(&r, many_small, line, sizeof(line));
    assert_string_equal(line, "copied to the GPU: 30 MiB by the driver (staging is off, observing only: 5); "
                              "400 MiB by the driver in 800 copies of less than 1 MiB");
    r.copies = (struct gf_transfer_stats){0};
    r.least = SIZE_MAX;
    r.state.off = "by option";
    gf_transfer_report_say(&r, many_small, line, sizeof(line));
    assert_string_equal(line, "copies: 400 MiB by the driver in 800 copies (staging is off, by option)");
}

static void pinned_memory(void **state)
{
    (void)state;
    static struct gf_transfer_report r = {.known = true};
    r.pinned.stats = (struct gf_pinned_stats){.large_calls = 1,
                                              .large_bytes = 2,
                                              .large_ns = 3000000,
                                              .small_calls = 4,
                                              .small_bytes = 5,
                                              .placed_calls = 6,
                                              .placed_bytes = 7,
                                              .kept_bytes = 8,
                                              .trims = 9};
    r.pinned.stats.driver_calls[gf_pinned_memory] = 10;
    r.pinned.stats.driver_bytes[gf_pinned_memory] = 11;
    r.pinned.held[1] = 12, r.pinned.held[GF_LARGE_NODES] = 13;
    HAS(written(&r),
        "\"pinned_memory\":{\"large\":{\"calls\":1,\"bytes\":2,\"took_s\":0.003},"
        "\"small\":{\"calls\":4,\"bytes\":5},\"reasons\":{\"memory\":{\"calls\":10,\"bytes\":11}},"
        "\"placed\":{\"calls\":6,\"bytes\":7},\"kept_bytes\":8,\"trims\":9,"
        "\"held_by_node\":{\"1\":12,\"unknown\":13}}");
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
