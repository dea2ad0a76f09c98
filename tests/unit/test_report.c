/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/json.h"
#include "base/path.h"
#include "base/output_file.h"
#include "host/verdict.h"
#include "engine/report/sections.h"
#include "engine/report/summary.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void json_is_written_and_escaped(void **state)
{
    (void)state;
    char buf[256];
    struct gf_json json = {.buf = buf, .size = sizeof(buf)};
    gf_json_begin(&json, NULL, '{');
    gf_json_text(&json, "a\"b", "x\\y\n\xff\xc3\xa9");
    gf_json_begin(&json, "list", '[');
    gf_json_int(&json, NULL, -3);
    gf_json_milli(&json, NULL, 1042);
    gf_json_begin(&json, NULL, '{');
    gf_json_end(&json, '}');
    gf_json_bool(&json, NULL, true);
    gf_json_text(&json, NULL, NULL);
    gf_json_end(&json, ']');
    gf_json_size(&json, "n", UINT64_MAX);
    gf_json_end(&json, '}');
    assert_true(gf_json_close(&json));
    assert_string_equal(
        buf, "{\"a\\\"b\":\"x\\\\y\\u000a\\ufffd\xc3\xa9\",\"list\":[-3,1.042,{},true,null],"
             "\"n\":18446744073709551615}");
}

static void json_that_does_not_fit_says_so(void **state)
{
    (void)state;
    char buf[8];
    struct gf_json json = {.buf = buf, .size = sizeof(buf)};
    gf_json_begin(&json, NULL, '[');
    gf_json_text(&json, NULL, "longer than that");
    gf_json_end(&json, ']');
    assert_false(gf_json_close(&json));
    assert_int_equal(json.at, 20);
}

static void paths_are_expanded(void **state)
{
    (void)state;
    char path[64], host[64], expected[128];
    assert_int_equal(gf_path_expand("/a/%p-%r.%%d%x%", 12, 3, path, sizeof(path)), 0);
    assert_string_equal(path, "/a/12-3.%d%x%");
    assert_int_equal(gf_path_expand("%r", 12, -1, path, sizeof(path)), 0);
    assert_string_equal(path, "0");
    gethostname(host, sizeof(host));
    snprintf(expected, sizeof(expected), "x%sy", host);
    assert_int_equal(gf_path_expand("x%hy", 1, 1, path, sizeof(path)), 0);
    assert_string_equal(path, expected);
    assert_int_equal(gf_path_expand("12345678", 1, 1, path, 8), -ENAMETOOLONG);
    assert_int_equal(gf_path_expand("1234567", 1, 1, path, 8), 0);
    assert_int_equal(gf_path_expand("12345%p", 123, 1, path, 8), -ENAMETOOLONG);
}

static void files_are_replaced_as_a_whole(void **state)
{
    (void)state;
    char folder[] = "/tmp/gpufeed-report-XXXXXX", path[64], text[16] = "";
    struct stat before, after;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/r.json", folder);
    assert_int_equal(gf_output_replace(path, "one", 3, gf_output_private), 0);
    assert_int_equal(stat(path, &before), 0);
    const int fd = open(path, O_RDONLY);
    assert_int_equal(gf_output_replace(path, "two", 3, gf_output_private), 0);
    assert_int_equal(stat(path, &after), 0);
    assert_true(before.st_ino != after.st_ino);
    assert_int_equal(read(fd, text, sizeof(text)), 3); /* an open file keeps the old report */
    assert_string_equal(text, "one");
    close(fd);
    assert_int_equal(gf_output_append(path, "", 0, "+", 1), 1);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(after.st_size, 4);
    unlink(path);
    assert_int_equal(rmdir(folder), 0); /* no temporary file is left */
    assert_int_equal(gf_output_replace("/nonexistent/r.json", "x", 1, gf_output_private), -ENOENT);
    assert_int_equal(gf_output_append("/nonexistent/r.json", "", 0, "x", 1), -ENOENT);
}

static unsigned count_files(const char *folder)
{
    unsigned count = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.' || strlen(entry->d_name) > 2;
    closedir(dir);
    return count;
}

/*
 * If the path is the user's own link, even a relative one, the link stays and its target is
 * replaced.
 */
static void own_links_are_followed(void **state)
{
    (void)state;
    char folder[] = "/tmp/gpufeed-report-XXXXXX", path[64], target[64], text[16] = "";
    struct stat found;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/r.json", folder);
    snprintf(target, sizeof(target), "%s/target", folder);
    assert_int_equal(symlink("target", path), 0);
    for (unsigned i = 0; i < 2; i++) /* in the first round the link has no target */
        assert_int_equal(gf_output_replace(path, "text", 4, gf_output_private), 0);
    assert_int_equal(lstat(path, &found), 0);
    assert_true(S_ISLNK(found.st_mode));
    const int fd = open(target, O_RDONLY | O_NOFOLLOW);
    assert_int_equal(read(fd, text, sizeof(text)), 4);
    close(fd);
    unlink(target);
    assert_int_equal(symlink("r.json", target), 0);
    assert_int_equal(gf_output_replace(path, "text", 4, gf_output_private), -ELOOP);
    unlink(target);
    unlink(path);
    rmdir(folder);
}

/* The user's own links are followed to a pipe, but not on to it through another user's link. */
static void a_pipe_behind_links(void **state)
{
    (void)state;
    char folder[] = "/tmp/gpufeed-report-XXXXXX", path[64], link[64], pipe[64], text[16] = "";
    struct stat found;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/r.json", folder);
    snprintf(link, sizeof(link), "%s/link", folder);
    snprintf(pipe, sizeof(pipe), "%s/pipe", folder);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(symlink("link", path), 0);
    assert_int_equal(symlink("pipe", link), 0);
    const int fd = open(pipe, O_RDONLY | O_NONBLOCK);
    assert_int_equal(gf_output_replace(path, "text", 4, gf_output_private), 0);
    assert_int_equal(read(fd, text, sizeof(text)), 4);
    if (lchown(link, 12345, 12345) == 0) { /* only root can make a link of another user */
        assert_int_equal(gf_output_replace(path, "text", 4, gf_output_private), 0);
        assert_int_equal(read(fd, text, sizeof(text)), 0);
        assert_true(lstat(link, &found) == 0 && S_ISREG(found.st_mode));
    }
    close(fd);
    unlink(path);
    unlink(link);
    unlink(pipe);
    assert_int_equal(rmdir(folder), 0);
}

/* In a folder that others may write to, their links are replaced or refused, never followed. */
static void links_of_others_are_not_followed(void **state)
{
    (void)state;
    char folder[] = "/tmp/gpufeed-report-XXXXXX", path[64], victim[64], text[16] = "", name[512];
    struct stat found;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/r.json", folder);
    snprintf(victim, sizeof(victim), "%s/victim", folder);
    assert_int_equal(gf_output_append(victim, "", 0, "kept", 4), 4);
    assert_int_equal(symlink(victim, path), 0);
    if (lchown(path, 12345, 12345) != 0) /* only root can make a link of another user */
        unlink(path);
    /* The path at which earlier versions wrote the new file before renaming it. */
    snprintf(name, sizeof(name), "%s.%d.new", path, getpid());
    assert_int_equal(symlink(victim, name), 0);
    assert_int_equal(gf_output_replace(path, "x", 1, gf_output_private), 0);
    assert_int_equal(lstat(path, &found), 0);
    assert_true(S_ISREG(found.st_mode));
    unlink(name);
    const int fd = open(victim, O_RDONLY);
    assert_int_equal(read(fd, text, sizeof(text)), 4);
    close(fd);
    assert_int_equal(count_files(folder), 2);
    /* The longest file name has no space for a suffix. */
    snprintf(name, sizeof(name), "%s/%0255d", folder, 0);
    assert_int_equal(gf_output_replace(name, "x", 1, gf_output_private), 0);
    unlink(name);
    unlink(path);
    unlink(victim);
    assert_int_equal(rmdir(folder), 0);
}

static int failing_write(const char *folder, const char *path)
{
    const struct rlimit none = {0, 0};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &none);
    return gf_output_replace(path, "new", 3, gf_output_private) == -EFBIG &&
                   count_files(folder) == 1
               ? 0
               : 1;
}

/* Writes fail as on a full disk. The last complete report stays, and no other file is left. */
static void failed_writes_leave_the_old(void **state)
{
    (void)state;
    char folder[] = "/tmp/gpufeed-report-XXXXXX", path[64];
    struct stat found;
    int status = 1;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/r.json", folder);
    assert_int_equal(gf_output_replace(path, "old1", 4, gf_output_private), 0);
    const pid_t pid = fork();
    if (pid == 0)
        _exit(failing_write(folder, path));
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_size, 4);
    unlink(path);
    assert_int_equal(rmdir(folder), 0);
}

/* Tests GPUFEED_REPORT=/dev/stdout if standard output is a file. */
static void standard_output_is_appended_to(void **state)
{
    (void)state;
    char file[] = "/tmp/gpufeed-report-XXXXXX", path[64], text[16] = "";
    const int fd = mkstemp(file);
    assert_int_equal(write(fd, "out ", 4), 4);
    for (unsigned i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), i ? "/dev/fd/%d" : "/proc/self/fd/%d", fd);
        assert_int_equal(gf_output_replace(path, "r", 1, gf_output_private), 0);
    }
    assert_int_equal(pread(fd, text, sizeof(text), 0), 6);
    assert_string_equal(text, "out rr");
    close(fd);
    unlink(file);
}

static void devices_are_not_renamed_over(void **state)
{
    (void)state;
    struct stat found;
    assert_int_equal(gf_output_replace("/dev/null", "x", 1, gf_output_private), 0);
    assert_int_equal(stat("/dev/null", &found), 0);
    assert_true(S_ISCHR(found.st_mode));
}

static void ring_of_samples_thins_out(void **state)
{
    (void)state;
    struct gf_report *report = calloc(1, sizeof(*report));
    for (unsigned i = 0; i < 1000; i++) {
        const struct gf_report_sample sample = {.at_ms = i, .threads.program = i % 100};
        gf_report_add_sample(report, &sample);
    }
    assert_true(report->sample_count <= GF_REPORT_SAMPLES);
    assert_int_equal(report->samples[0].at_ms, 0);
    assert_int_equal(report->samples[report->sample_count - 1].at_ms, 999);
    assert_int_equal(report->peak.program, 99);
    for (size_t i = 1; i < report->sample_count; i++)
        assert_true(report->samples[i].at_ms > report->samples[i - 1].at_ms);
    free(report);
}

static struct gf_decision bound_decision(void)
{
    struct gf_decision decision = {.gpu_count = 1, .bound = true, .policy = MPOL_PREFERRED};
    strcpy(decision.gpus[0].name, "NVIDIA H200");
    strcpy(decision.gpus[0].bdf, "0000:41:00.0");
    gf_set_add(&decision.verdict.nodes, 1);
    gf_set_add(&decision.verdict.policy_nodes, 1);
    decision.verdict.node_source = "sysfs";
    strcpy(decision.verdict.reason, "the GPU's node 1");
    gf_set_parse("8-15", &decision.cpus);
    decision.threads.program = decision.threads.on_target = 18;
    decision.bind.descendants = 8;
    return decision;
}

static void verdict_lines(void **state)
{
    (void)state;
    struct gf_options options;
    struct gf_decision decision = bound_decision();
    char line[512];
    gf_options_load(&options, NULL);
    gf_summary_verdict(&decision, &options, GF_TEST_INTO(line));
    assert_string_equal(line,
                        "GPU 0 NVIDIA H200 0000:41:00.0 node 1 (sysfs): 18 threads and 8 worker "
                        "threads on CPUs 8-15; memory prefers node 1");
    decision.bound = false;
    decision.policy = MPOL_DEFAULT;
    strcpy(decision.verdict.reason, "GPUFEED_BIND=off");
    strcpy(decision.verdict.remedy, "do something");
    gf_summary_verdict(&decision, &options, GF_TEST_INTO(line));
    assert_string_equal(line, "GPU 0 NVIDIA H200 0000:41:00.0 node 1 (sysfs): not bound: "
                              "GPUFEED_BIND=off (do something)");
    decision.verdict.nodes = (struct gf_nodes){0};
    decision.verdict.node_source = NULL;
    decision.observe = true;
    decision.verdict.bound = gf_bound_node;
    *decision.verdict.remedy = '\0';
    gf_set_parse("0-3", &decision.verdict.cpus);
    gf_summary_verdict(&decision, &options, GF_TEST_INTO(line));
    assert_string_equal(line, "GPU 0 NVIDIA H200 0000:41:00.0 node unknown: observed only; would "
                              "use CPUs 0-3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_is_written_and_escaped),
        cmocka_unit_test(json_that_does_not_fit_says_so),
        cmocka_unit_test(paths_are_expanded),
        cmocka_unit_test(files_are_replaced_as_a_whole),
        cmocka_unit_test(own_links_are_followed),
        cmocka_unit_test(links_of_others_are_not_followed),
        cmocka_unit_test(a_pipe_behind_links),
        cmocka_unit_test(failed_writes_leave_the_old),
        cmocka_unit_test(standard_output_is_appended_to),
        cmocka_unit_test(devices_are_not_renamed_over),
        cmocka_unit_test(ring_of_samples_thins_out),
        cmocka_unit_test(verdict_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
