/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/compare/compare.h"

#include "os/launch.h"
#include "tools/common/cli.h"
#include "tools/common/text.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>

#define RESAMPLES 20000
#define SEED UINT64_C(1)

/* splitmix64, with its published constants */
uint64_t gf_bootstrap_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/*
 * Returns the share of resamples that are below the interval, which is also the share above it.
 * Approximates Phi(-sqrt(n / (n - 1)) * t), with Student's t for n - 1 degrees of freedom. Below 12
 * pairs the share is smaller, because few different resamples exist. If equal arms are compared and
 * the noise is normal, 5 to 6 % of the intervals exclude the ratio 1.
 */
static double tail(size_t count)
{
    const double n = (double)count;
    return gf_max(0.0005, 0.025 - 0.2 / n + 0.25 / (n * n));
}

/* Returns the mean of as many random values as there are. */
static double resample(const double *values, size_t count, uint64_t *state)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += values[gf_bootstrap_random(state) % count];
    return sum / (double)count;
}

double gf_mean(const double *values, size_t count)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return sum / (double)count;
}

struct gf_ratio gf_bootstrap_ratio(const double *const values[2], const size_t counts[2],
                                   bool paired)
{
    double *ratios = gf_cli_alloc(RESAMPLES, sizeof(*ratios));
    /* The sides of a pair are drawn with equal sequences, so they stay together. */
    uint64_t states[2] = {SEED, paired ? SEED : SEED + 1};

    for (size_t i = 0; i < RESAMPLES; i++) {
        const double before = resample(values[0], counts[0], &states[0]);
        ratios[i] = resample(values[1], counts[1], &states[1]) / before;
    }
    qsort(ratios, RESAMPLES, sizeof(*ratios), gf_by_double);
    const size_t cut = (size_t)(tail(gf_min(counts[0], counts[1])) * RESAMPLES);
    const struct gf_ratio ret = {gf_mean(values[1], counts[1]) / gf_mean(values[0], counts[0]),
                                 ratios[cut], ratios[RESAMPLES - 1 - cut]};
    free(ratios);
    return ret;
}

/* Creates the folder of the reports. */
static int make_folder(struct gf_run_folder *ret)
{
    const char *parent = gf_launch_variable(environ, "TMPDIR");
    struct stat found;

    snprintf(ret->path, sizeof(ret->path), "%s/gpufeed-compare-XXXXXX",
             parent && *parent ? parent : "/tmp");
    if (mkdtemp(ret->path)) {
        ret->fd = open(ret->path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (ret->fd >= 0 && fstat(ret->fd, &found) == 0 && found.st_uid == geteuid())
            return 0;
        errno = EPERM; /* another user has replaced it */
    }
    const int error = errno;
    return gf_cli_fail(-error, "compare", "cannot make the folder %s: %s; set TMPDIR", ret->path,
                       strerror(error));
}

static void show_progress(size_t done, size_t all)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K%s%zu of %zu runs%s", done == all ? "" : "gpufeed compare: ", done,
                all, done == all ? "\r\033[K" : "");
}

/* Without a terminal, for example in a batch job, prints a line after each pair. */
static void show_pair(const struct gf_arms *arms, const struct gf_run runs[2], size_t pair,
                      size_t pairs)
{
    const char *number = pair ? gf_text("pair %zu of %zu", pair, pairs) : "discarded pair";

    if (isatty(STDERR_FILENO))
        return;
    gf_cli_error("compare", "%s: %s %.3g s, %s %.3g s", number, arms->list[0].name, runs[0].wall_s,
                 arms->list[1].name, runs[1].wall_s);
}

struct runs {
    const struct gf_arms *arms;
    char *const *command;
    const struct gf_run_folder *folder;
    size_t done, all;
};

static int run_pair(struct runs *runs, uint64_t *random, struct gf_run ret[2])
{
    const size_t first = gf_bootstrap_random(random) & 1;
    int error = 0;

    for (size_t i = 0; i < 2 && !error; i++) {
        const size_t arm = first ^ i;
        show_progress(runs->done++, runs->all);
        error = gf_one_run(&runs->arms->list[arm], runs->command, runs->folder, &ret[arm]);
    }
    return error;
}

static int run_pairs(struct runs *runs, size_t pairs, struct gf_side sides[2])
{
    struct gf_run *both = gf_cli_alloc(2, sizeof(*both));
    uint64_t random = 0;
    int error = getrandom(&random, sizeof(random), 0) < 0 ? -errno : 0;

    for (size_t pair = 0; pair <= pairs && !error; pair++) {
        error = run_pair(runs, &random, both);
        if (error)
            break;
        show_pair(runs->arms, both, pair, pairs);
        for (size_t arm = 0; arm < 2 && pair; arm++)
            gf_side_add(&sides[arm], &both[arm]);
    }
    show_progress(runs->all, runs->all);
    free(both);
    return error;
}

int gf_trial_run(const struct gf_arms *arms, size_t pairs, char *const *command,
                 struct gf_side sides[2])
{
    struct gf_run_folder folder;
    struct runs runs = {
        .arms = arms, .command = command, .folder = &folder, .all = 2 * (pairs + 1)};
    int error = make_folder(&folder);

    if (error)
        return error;
    error = run_pairs(&runs, pairs, sides);
    rmdir(folder.path);
    close(folder.fd);
    return error;
}
