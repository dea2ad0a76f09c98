/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "config/option_text.h"
#include "config/options.h"

#include <string.h>

static void defaults(void **state)
{
    (void)state;
    struct gf_options o;
    gf_options_load(&o, NULL);
    assert_int_equal(o.mode, gf_mode_on);
    assert_int_equal(o.bind, gf_bind_auto);
    assert_int_equal(o.verbose, 0);
    assert_string_equal(o.report, "");
    assert_int_equal(o.origin.bind, gf_origin_default);
}

static void reads_the_environment(void **state)
{
    (void)state;
    char *env[] = {"PATH=/bin",
                   "GPUFEED=observe",
                   "GPUFEED_BIND=exclusive",
                   "GPUFEED_VERBOSE=2",
                   "GPUFEED_REPORT=/tmp/r-%p.json",
                   "GPUFEEDX=1",
                   NULL};
    struct gf_options o;
    gf_options_load(&o, env);
    assert_int_equal(o.mode, gf_mode_observe);
    assert_int_equal(o.bind, gf_bind_exclusive);
    assert_int_equal(o.verbose, 2);
    assert_string_equal(o.report, "/tmp/r-%p.json");
    assert_int_equal(o.origin.bind, gf_origin_environment);
}

static void bad_values_leave_the_default(void **state)
{
    (void)state;
    char *env[] = {"GPUFEED_BIND=both", "GPUFEED_VERBOSE=9", NULL};
    struct gf_options o;
    gf_options_load(&o, env);
    assert_int_equal(o.bind, gf_bind_auto);
    assert_int_equal(o.verbose, 0);
    assert_int_equal(o.origin.bind, gf_origin_rejected);
}

static void a_switch_is_a_switch(void **state)
{
    (void)state;
    static const char *const off[] = {"0", "no", "False"}, *const on[] = {"1", "YES", "true", "on"};
    struct gf_options o;
    for (size_t i = 0; i < GF_ARRAY_LEN(off); i++) {
        char mode[32], stage[32];
        char *env[] = {strcat(strcpy(mode, "GPUFEED="), off[i]),
                       strcat(strcpy(stage, "GPUFEED_STAGE="), off[i]), NULL};
        gf_options_load(&o, env);
        assert_int_equal(o.mode, gf_mode_off);
        assert_int_equal(o.stage, gf_stage_off);
        assert_int_equal(o.origin.mode, gf_origin_environment);
        assert_false(gf_validate_rejects(mode));
    }
    for (size_t i = 0; i < GF_ARRAY_LEN(on); i++) {
        char mode[32], heap[32], profile[32], omp[32], debug[32], log[32];
        char *env[] = {strcat(strcpy(mode, "GPUFEED="), on[i]),
                       strcat(strcpy(heap, "GPUFEED_HEAP="), on[i]),
                       strcat(strcpy(profile, "GPUFEED_PROFILE="), on[i]),
                       strcat(strcpy(omp, "GPUFEED_OMP="), on[i]),
                       strcat(strcpy(debug, "GPUFEED_DEBUG="), on[i]),
                       strcat(strcpy(log, "GPUFEED_LOG="), on[i]),
                       NULL};
        gf_options_load(&o, env);
        assert_int_equal(o.mode, gf_mode_on);
        assert_int_equal(o.heap, gf_heap_auto);
        assert_int_equal(o.omp, gf_omp_auto);
        assert_int_equal(o.origin.heap, gf_origin_environment);
        assert_int_equal(o.origin.debug, gf_origin_rejected);   /* a list of areas */
        assert_string_equal(o.log, on[i]);                      /* a path */
        assert_int_equal(o.origin.profile, gf_origin_rejected); /* nothing there is off */
    }
}

static void collect(void *closure, const char *line)
{
    char *all = closure;
    strcat(strcat(all, line), "\n");
}

static void complains_once_and_clearly(void **state)
{
    (void)state;
    char *env[] = {"GPUFEED_BIND=both",
                   "GPUFEED_BNID=node",
                   "GPUFEED_BOUND=x",
                   "GPUFEED_ENGINE=1",
                   "GPUFEED_ZZZZZZZZ=1",
                   "GPUFEED_VERBOSE=",
                   "GPUFEED_STAGE_MIN=1K",
                   "GPUFEED_MEM=strickt",
                   "GPUFEED_HEAP=\x1b[31m\n",
                   "HOME=/",
                   NULL};
    char all[2048] = "";
    gf_validate_environment(env, false, collect, all);
    assert_string_equal(
        all, "GPUFEED_BIND=both is not valid; allowed: auto, node, socket, exclusive, "
             "force, off; "
             "using auto\n"
             "GPUFEED_BNID is not an option (did you mean GPUFEED_BIND?)\n"
             "GPUFEED_ZZZZZZZZ is not an option; `gpufeed run --help` lists them\n"
             "GPUFEED_STAGE_MIN=1K is not valid; allowed: auto, 4K to 1T; using auto\n"
             "GPUFEED_MEM=strickt is not valid; allowed: auto, preferred, strict, off "
             "(did you mean strict?); using auto\n"
             "GPUFEED_HEAP=?[31m? is not valid; allowed: auto, replace, wrap, off; using auto\n");
}

static void every_row_prints_what_it_parsed(void **state)
{
    (void)state;
    struct gf_options o;
    char buf[32], flag[GF_OPTION_FLAG_MAX];
    gf_options_load(&o, NULL);
    for (size_t i = 0; i < GF_OPTION_COUNT; i++) {
        const struct gf_option_row *row = &gf_option_rows[i];
        assert_string_equal(gf_option_text_value(&o, row, buf, sizeof(buf)), row->fallback);
        assert_ptr_equal(gf_option_by_name(row->name), row);
        gf_option_flag(row, flag, sizeof(flag));
        assert_null(strchr(flag, '_'));
        assert_int_equal(strlen(flag), strlen(row->token));
        assert_true(strlen(row->help) > 10);
    }
}

static void flags_are_written_with_dashes(void **state)
{
    (void)state;
    const struct gf_option_row *row = gf_option_by_name("GPUFEED_STAGE_MIN");
    char flag[GF_OPTION_FLAG_MAX];
    assert_non_null(row);
    assert_string_equal(gf_option_flag(row, flag, sizeof(flag)), "stage-min");
    assert_null(gf_option_by_name("stage-min"));
}

static uint64_t stage_min(const char *value, enum gf_origin *ret_origin)
{
    char entry[128];
    char *env[] = {entry, NULL};
    struct gf_options o;
    strcat(strcpy(entry, "GPUFEED_STAGE_MIN="), value);
    gf_options_load(&o, env);
    *ret_origin = o.origin.stage_min;
    return o.stage_min;
}

static void reads_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"4096", 4096},     {"4K", 4096},           {"64kib", 65536},
                {"3M", 3 << 20},    {"2GB", 2ull << 30},    {"4097B", 4097},
                {"1T", 1ull << 40}, {"auto", GF_SIZE_AUTO}, {"0004096", 4096}};
    enum gf_origin origin;
    for (size_t i = 0; i < GF_ARRAY_LEN(good); i++) {
        assert_int_equal(stage_min(good[i].text, &origin), good[i].bytes);
        assert_int_equal(origin, gf_origin_environment);
    }
}

static void rejects_bad_sizes(void **state)
{
    (void)state;
    static const char *const bad[] = {"0",
                                      "4095",
                                      "3K",
                                      "1025G",
                                      "2T",
                                      "-1",
                                      "+4096",
                                      "4 K",
                                      "4KK",
                                      "K",
                                      "1.5M",
                                      "0x1000",
                                      "auto ",
                                      "4Kb2",
                                      "4E",
                                      "1e6",
                                      "18446744073709551615",
                                      "18446744073709551616",
                                      "18014398509481984K",
                                      "16777216T"};
    enum gf_origin origin;
    for (size_t i = 0; i < GF_ARRAY_LEN(bad); i++) {
        assert_int_equal(stage_min(bad[i], &origin), GF_SIZE_AUTO);
        assert_int_equal(origin, gf_origin_rejected);
    }
}

static void sizes_are_written_shortly(void **state)
{
    (void)state;
    char *env[] = {"GPUFEED_STAGE_MIN=8192", "GPUFEED_STAGE_RING=1537M", "GPUFEED_PIN_CACHE=0",
                   NULL};
    struct gf_options o;
    char buf[64];
    gf_options_load(&o, env);
    assert_string_equal(
        gf_option_text_value(&o, gf_option_by_name("GPUFEED_STAGE_MIN"), buf, sizeof(buf)), "8K");
    assert_string_equal(
        gf_option_text_value(&o, gf_option_by_name("GPUFEED_STAGE_RING"), buf, sizeof(buf)),
        "1537M");
    assert_string_equal(
        gf_option_text_value(&o, gf_option_by_name("GPUFEED_PIN_CACHE"), buf, sizeof(buf)), "0");
    assert_string_equal(
        gf_option_text_allowed(gf_option_by_name("GPUFEED_STAGE_RING"), false, buf, sizeof(buf)),
        "auto, 2M to 1T");
    assert_string_equal(
        gf_option_text_allowed(gf_option_by_name("GPUFEED_PIN_CACHE"), true, buf, sizeof(buf)),
        "auto|0..1T");
}

static void suggests_near_names_only(void **state)
{
    (void)state;
    assert_string_equal(gf_suggest_name("GPUFEED_VERBOS"), "GPUFEED_VERBOSE");
    assert_string_equal(gf_suggest_name("GPUFEED_REPROT"), "GPUFEED_REPORT");
    assert_string_equal(gf_suggest_name("GPUFEED_stage_min"), "GPUFEED_STAGE_MIN");
    assert_string_equal(gf_suggest_name("gpufeed_verbos"), "GPUFEED_VERBOSE");
    assert_string_equal(gf_suggest_name("gpufeed"), "GPUFEED");
    assert_null(gf_suggest_name("GPUFEED_SOMETHING_ELSE"));
    assert_null(gf_suggest_name("GPUFEED_"));
    assert_string_equal(gf_suggest_name("GPUFEED_MODE"), "GPUFEED");
    assert_string_equal(gf_suggest_name("GPUFEED_DISABLE"), "GPUFEED=off");
    assert_string_equal(gf_suggest_name("GPUFEED_Enabled"), "GPUFEED=on");
}

static void suggests_near_values_only(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value, *meant;
    } cases[] = {
        {"GPUFEED_BIND", "nod", "node"},
        {"GPUFEED_BIND", "SOKCET", "socket"},
        {"GPUFEED_BIND", "excl", "exclusive"},
        {"GPUFEED_BIND", "both", NULL},
        {"GPUFEED_BIND", "none", "off"},
        {"GPUFEED_MEM", "strickt", "strict"},
        {"GPUFEED_MEM", "", NULL},
        {"GPUFEED_PROFILE", "infrence", "inference"},
        {"GPUFEED_PROFILE", "train", "training"},
        {"GPUFEED_PROFILE", "none", NULL},
        {"GPUFEED", "of", "off"},
        {"GPUFEED", "n", NULL},
        {"GPUFEED_STAGE_MIN", "atuo", "auto"},
        {"GPUFEED_STAGE_MIN", "1K", NULL},
        {"GPUFEED_VERBOSE", "10", NULL},
        {"GPUFEED_LOG", "of", NULL},
    };
    for (size_t i = 0; i < GF_ARRAY_LEN(cases); i++) {
        const char *found = gf_suggest_value(gf_option_by_name(cases[i].name), cases[i].value);
        assert_string_equal(found ? found : "", cases[i].meant ? cases[i].meant : "");
    }
}

/* Values ignore case, as in GPUFEED=OFF. A name in lower case is reported, not read. */
static void values_in_any_case(void **state)
{
    (void)state;
    char *env[] = {"GPUFEED=OFF", "GPUFEED_BIND=Node", "GPUFEED_STAGE_RING=AUTO", "gpufeed_mem=off",
                   NULL};
    struct gf_options o;
    gf_options_load(&o, env);
    assert_int_equal(o.mode, gf_mode_off);
    assert_int_equal(o.bind, gf_bind_node);
    assert_int_equal(o.stage_ring, GF_SIZE_AUTO);
    assert_int_equal(o.origin.stage_ring, gf_origin_environment);
    assert_int_equal(o.mem, gf_mem_auto);
    assert_true(gf_validate_rejects("gpufeed_mem=off"));
    assert_true(gf_validate_rejects("GPUFEED=OFFF"));
    assert_true(gf_validate_rejects("GPUFEED=O"));
    assert_false(gf_validate_rejects("GPUFEED=OFF"));
}

static void off_is_no_path(void **state)
{
    (void)state;
    char *env[] = {"GPUFEED_LOG=off", "GPUFEED_REPORT=OFF", "GPUFEED_MACHINE=./off", NULL};
    struct gf_options o;
    gf_options_load(&o, env);
    assert_string_equal(o.log, "");
    assert_string_equal(o.report, "");
    assert_string_equal(o.machine, "./off");
}

static void rejects_what_it_complains_about(void **state)
{
    (void)state;
    assert_true(gf_validate_rejects("GPUFEED_BIND=both"));
    assert_true(gf_validate_rejects("GPUFEED_BNID=node"));
    assert_true(gf_validate_rejects("GPUFEED="));
    assert_false(gf_validate_rejects("GPUFEED_BIND=node"));
    assert_false(gf_validate_rejects("GPUFEED_BOUND=x"));
    assert_false(gf_validate_rejects("GPUFEED_ENGINE=1"));
    assert_false(gf_validate_rejects("GPUFEEDER=x"));
    assert_false(gf_validate_rejects("GPUFEED_SERVICE_HOST=10.0.0.1"));
    assert_false(gf_validate_rejects("GPUFEED_PORT=tcp://10.0.0.1:80"));
    assert_false(gf_validate_rejects("GPUFEED_PORT_80_TCP_ADDR=10.0.0.1"));
    assert_true(gf_validate_rejects("GPUFEED_PORTS=1"));
    assert_false(gf_validate_rejects("GPUFEED_BIND"));
}

static unsigned areas(const char *value, enum gf_origin *ret_origin)
{
    char entry[128];
    char *env[] = {entry, NULL};
    struct gf_options o;
    strcat(strcpy(entry, "GPUFEED_DEBUG="), value);
    gf_options_load(&o, env);
    *ret_origin = o.origin.debug;
    return o.debug;
}

static void reads_lists(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned bits;
    } good[] = {
        {"copy", 1}, {"heap", 2},     {"place,copy", 5}, {"copy,copy", 1}, {"HEAP,Copy", 3},
        {"all", 7},  {"copy,all", 7}, {"off", 0},        {"no", 0},        {"copy,heap,place", 7}};
    static const char *const bad[] = {
        ",",          "copy,",     ",copy",
        "copy, heap", "cop",       "copyy",
        "copy,off",   "copy;heap", "copycopycopycopycopycopycopycopycopy"};
    enum gf_origin origin;
    for (size_t i = 0; i < GF_ARRAY_LEN(good); i++) {
        assert_int_equal(areas(good[i].text, &origin), good[i].bits);
        assert_int_equal(origin, gf_origin_environment);
    }
    for (size_t i = 0; i < GF_ARRAY_LEN(bad); i++) {
        assert_int_equal(areas(bad[i], &origin), 0);
        assert_int_equal(origin, gf_origin_rejected);
    }
}

static void writes_lists(void **state)
{
    (void)state;
    const struct gf_option_row *row = gf_option_by_name("GPUFEED_DEBUG");
    char *env[] = {"GPUFEED_DEBUG=place,copy", NULL}, *wrong[] = {"GPUFEED_DEBUG=copy,hep", NULL};
    struct gf_options o;
    char buf[64], all[512] = "";
    gf_options_load(&o, env);
    assert_string_equal(gf_option_text_value(&o, row, buf, sizeof(buf)), "copy,place");
    assert_string_equal(gf_option_text_allowed(row, true, buf, sizeof(buf)),
                        "off|all|copy,heap,place");
    gf_validate_environment(wrong, false, collect, all);
    assert_string_equal(
        all, "GPUFEED_DEBUG=copy,hep is not valid; allowed: off, all, or a "
             "list, separated by commas, of copy, heap, place (did you mean heap?); using off\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(reads_the_environment),
        cmocka_unit_test(bad_values_leave_the_default),
        cmocka_unit_test(a_switch_is_a_switch),
        cmocka_unit_test(complains_once_and_clearly),
        cmocka_unit_test(every_row_prints_what_it_parsed),
        cmocka_unit_test(flags_are_written_with_dashes),
        cmocka_unit_test(reads_sizes),
        cmocka_unit_test(rejects_bad_sizes),
        cmocka_unit_test(sizes_are_written_shortly),
        cmocka_unit_test(suggests_near_names_only),
        cmocka_unit_test(suggests_near_values_only),
        cmocka_unit_test(values_in_any_case),
        cmocka_unit_test(off_is_no_path),
        cmocka_unit_test(reads_lists),
        cmocka_unit_test(writes_lists),
        cmocka_unit_test(rejects_what_it_complains_about),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
