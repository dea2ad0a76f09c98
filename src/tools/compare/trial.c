/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/compare/compare.h"

#include "base/clock.h"
#include "base/output_file.h"
#include "config/option_text.h"
#include "tools/common/cli.h"
#include "tools/common/nvml.h"
#include "tools/common/text.h"
#include "tools/run/program_start.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

static struct gf_arm *find_arm(struct gf_arms *arms, const char *name, size_t length)
{
    for (size_t i = 0; i < arms->count; i++)
        if (strlen(arms->list[i].name) == length && memcmp(arms->list[i].name, name, length) == 0)
            return &arms->list[i];
    if (arms->count == GF_ARRAY_LEN(arms->list)) {
        gf_cli_error("%.*s is a third arm; only two arms can be compared", (int)length, name);
        return NULL;
    }
    struct gf_arm *arm = &arms->list[arms->count++];
    memcpy(arm->name, name, length);
    return arm;
}

static void report_mistake(void *closure, const char *line)
{
    /*
     * Removes the end of the line, which names the default that the library would use. `compare`
     * exits with an error instead.
     */
    const char *end = strstr(line, "; using ");

    *(bool *)closure = true;
    gf_cli_error("%.*s", end ? (int)(end - line) : (int)strlen(line), line);
}

/*
 * Checks the arms' options. The library would ignore an invalid value, and then both arms would run
 * with the same settings.
 */
static int check_variable(const char *variable)
{
    char *const entries[] = {(char *)(uintptr_t)variable, NULL};
    bool mistaken = false;

    if (strncmp(variable, "GPUFEED_REPORT=", strlen("GPUFEED_REPORT=")) == 0)
        return gf_cli_fail(-EINVAL, "GPUFEED_REPORT is set by `gpufeed compare` itself");
    gf_validate_environment(entries, true, report_mistake, &mistaken);
    return mistaken ? -EINVAL : 0;
}

int gf_arms_add(struct gf_arms *arms, const char *text)
{
    const char *colon = strchr(text, ':');
    const char *variable = colon ? colon + 1 : "";
    const size_t length = colon ? (size_t)(colon - text) : 0;
    const char *equals = strchr(variable, '=');

    if (!length || length >= sizeof(arms->list[0].name) ||
        (*variable && (!equals || equals == variable)))
        return gf_cli_fail(-EINVAL,
                           "--arm=%.80s is not NAME:VAR=VALUE with a name of at most 31 characters",
                           text);
    struct gf_arm *arm = find_arm(arms, text, length);
    if (!arm || (*variable && check_variable(variable)))
        return -EINVAL;
    size_t count = 0;
    while (arm->variables[count])
        count++;
    if (count == GF_ARM_VARIABLES)
        return gf_cli_fail(-EINVAL, "arm %s has more than %d variables", arm->name,
                           GF_ARM_VARIABLES);
    if (*variable)
        arm->variables[count] = variable;
    return 0;
}

int gf_arms_finish(struct gf_arms *arms)
{
    if (arms->count == GF_ARRAY_LEN(arms->list))
        return 0;
    if (arms->count)
        return gf_cli_fail(-EINVAL, "%s is the only arm; a comparison needs two: add another --arm",
                           arms->list[0].name);
    *arms = (struct gf_arms){.list = {{.name = "observe", .variables = {"GPUFEED=observe"}},
                                      {.name = "on", .variables = {"GPUFEED=on"}}},
                             .count = 2};
    return 0;
}

#define GPUS_MAX 64
#define PERIOD_NS 500000000L
#define CLOCK_SM 1        /* NVML_CLOCK_SM */
#define TEMPERATURE_GPU 0 /* NVML_TEMPERATURE_GPU */
/* nvmlClocksThrottleReason*: power cap, hardware slowdown, thermal, hardware thermal, power brake */
#define LIMITED (1 << 2 | 1 << 3 | 1 << 5 | 1 << 6 | 1 << 7)

static struct {
    void *library;
    unsigned count;
} nvml;

static struct {
    pthread_t thread;
    bool runs;
    sem_t end;                /* posted when the thread is to end */
    struct gf_gpu_clock sums; /* only the thread uses this, until it has ended */
} reader;

static void read_gpu(void *library, unsigned index, struct gf_gpu_clock *sums)
{
    struct gf_nvml_utilization busy = {0};
    unsigned mhz = 0, celsius = 0;
    unsigned long long reasons = 0;
    void *device;

    if (!GF_NVML_CALL(library, "nvmlDeviceGetHandleByIndex_v2", (unsigned, void **), index,
                      &device) ||
        !GF_NVML_CALL(library, "nvmlDeviceGetUtilizationRates",
                      (void *, struct gf_nvml_utilization *), device, &busy) ||
        !busy.gpu ||
        !GF_NVML_CALL(library, "nvmlDeviceGetClockInfo", (void *, int, unsigned *), device,
                      CLOCK_SM, &mhz))
        return;
    sums->readings++;
    sums->mhz += mhz;
    if (GF_NVML_CALL(library, "nvmlDeviceGetTemperature", (void *, int, unsigned *), device,
                     TEMPERATURE_GPU, &celsius))
        sums->celsius = gf_max(sums->celsius, celsius);
    if (GF_NVML_CALL(library, "nvmlDeviceGetCurrentClocksThrottleReasons",
                     (void *, unsigned long long *), device, &reasons) &&
        (reasons & LIMITED))
        sums->limited++;
}

/* Waits for the next reading. Returns false if clocks_end was called. */
static bool wait_period(void)
{
    const struct timespec until = gf_timespec(gf_clock_ns(CLOCK_REALTIME) + PERIOD_NS);
    int error;

    while ((error = sem_timedwait(&reader.end, &until) ? errno : 0) == EINTR)
        ;
    return error == ETIMEDOUT;
}

static void *read_gpus(void *unused)
{
    while (wait_period())
        for (unsigned i = 0; i < nvml.count; i++)
            read_gpu(nvml.library, i, &reader.sums);
    return unused;
}

/*
 * Starts the thread that reads the clocks; clocks_end stops it, and returns its readings. Only one such
 * thread can run.
 */
static void clocks_begin(void)
{
    static bool tried;

    if (!tried)
        nvml.library = gf_nvml_load(&nvml.count);
    tried = true;
    nvml.count = gf_min(nvml.count, (unsigned)GPUS_MAX);
    reader.sums = (struct gf_gpu_clock){0};
    sem_init(&reader.end, 0, 0);
    reader.runs = nvml.count && pthread_create(&reader.thread, NULL, read_gpus, NULL) == 0;
}

static struct gf_gpu_clock clocks_end(void)
{
    if (reader.runs) {
        sem_post(&reader.end);
        pthread_join(reader.thread, NULL);
    }
    reader.runs = false;
    return reader.sums;
}

static volatile sig_atomic_t pending;       /* SIGINT was received */
static struct sigaction outer, outer_child; /* the actions of SIGINT and SIGCHLD before */

static void on_interrupt(int number)
{
    (void)number;
    pending = 1;
}

void gf_interrupt_begin(void)
{
    const struct sigaction action = {.sa_handler = on_interrupt}; /* no SA_RESTART */
    const struct sigaction normal = {.sa_handler = SIG_DFL};

    sigaction(SIGCHLD, &normal, &outer_child); /* if it is ignored, there are no exit codes */
    sigaction(SIGINT, NULL, &outer);
    if (outer.sa_handler != SIG_IGN)
        sigaction(SIGINT, &action, NULL);
}

void gf_interrupt_end(void)
{
    sigaction(SIGINT, &outer, NULL);
    sigaction(SIGCHLD, &outer_child, NULL);
    if (pending)
        raise(SIGINT);
}

/* Files are found by the folder's descriptor, because another user may rename its path. */
#define IN_FOLDER "/proc/self/fd/%d/"
#define OUTPUT IN_FOLDER "output"
#define SHOWN_BYTES 1024 /* how many bytes of a failed command's output are printed */

struct run_folder {
    char path[PATH_MAX]; /* for the command's processes */
    int fd;
};

static void set_environment(const struct gf_arm *arm, const char *folder)
{
    char report[PATH_MAX + sizeof("/%p.json")];

    for (size_t i = 0; arm->variables[i]; i++) {
        const char *equals = strchr(arm->variables[i], '=');
        const size_t length = (size_t)(equals - arm->variables[i]);
        gf_env_set(gf_text("%.*s", (int)length, arm->variables[i]), equals + 1);
    }
    snprintf(report, sizeof(report), "%.*s/%%p.json", PATH_MAX - 1, folder);
    gf_env_set("GPUFEED_REPORT", report);
}

/* Executes the command in the child. Never returns. */
static void run_child(const struct gf_arm *arm, char *const *command,
                      const struct run_folder *folder)
{
    char self[] = "gpufeed", verb[] = "run", end[] = "--";
    size_t count = 0;

    while (command[count])
        count++;
    char **argv = calloc(count + 4, sizeof(*argv));
    const int output = gf_output_open_to_append(gf_text(OUTPUT, folder->fd));
    const int input = open("/dev/null", O_RDONLY);
    if (!argv || output < 0 || input < 0)
        _exit(GF_EXIT_FAILED);
    dup2(input, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    sigaction(SIGCHLD, &outer_child, NULL);
    set_environment(arm, folder->path);
    /* If the comparison is killed, the kernel also ends the command. */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    argv[0] = self;
    argv[1] = verb;
    argv[2] = end;
    for (size_t i = 0; i < count; i++)
        argv[3 + i] = command[i];
    execv("/proc/self/exe", argv);
    _exit(GF_EXIT_FAILED);
}

static void print_output(int folder)
{
    char text[SHOWN_BYTES + 1];
    FILE *file = fopen(gf_text(OUTPUT, folder), "re");

    if (!file)
        return;
    if (fseek(file, -SHOWN_BYTES, SEEK_END))
        rewind(file);
    const size_t length = fread(text, 1, SHOWN_BYTES, file);
    fclose(file);
    text[length] = '\0';
    fputs(length ? text : "(it printed nothing)\n", stderr);
    if (length && text[length - 1] != '\n')
        fputc('\n', stderr);
}

static int report_failure(const struct gf_arm *arm, int folder, int status)
{
    if (WIFSIGNALED(status))
        gf_cli_error("arm %s: the command was killed by SIG%s; its output ends with:", arm->name,
                     sigabbrev_np(WTERMSIG(status)));
    else
        gf_cli_error("arm %s: the command exited with code %d; its output ends with:", arm->name,
                     WEXITSTATUS(status));
    print_output(folder);
    return -ECHILD;
}

/* Reads the reports of the run, and empties the folder. */
static void collect(int folder, struct gf_figures *ret)
{
    GF_FOLDER(entries, gf_text(IN_FOLDER, folder));
    for (const char *name; (name = gf_folder_next(&entries));) {
        const char *dot = strrchr(name, '.'), *path = gf_text(IN_FOLDER "%s", folder, name);
        if (dot && strcmp(dot, ".json") == 0)
            gf_figures_add_file(ret, path);
        unlink(path);
    }
}

/*
 * Runs the command by `gpufeed run` with the arm's variables, and waits for its end. Reports and
 * output go into the folder, which is emptied afterwards. Returns 0 or -errno. If the command
 * cannot be run or fails, prints the reason and the last lines of its output. SIGINT ends the
 * command, and the result is -EINTR.
 */
static int run_once(const struct gf_arm *arm, char *const *command, const struct run_folder *folder,
                    struct gf_run *ret)
{
    int status;

    *ret = (struct gf_run){0};
    if (pending)
        return -EINTR;
    fflush(stdout);
    const uint64_t start_ns = gf_now_ns();
    const pid_t child = fork();
    if (child == 0)
        run_child(arm, command, folder);
    int error = child < 0 ? -errno : 0;
    if (!error)
        clocks_begin();
    while (!error && waitpid(child, &status, 0) < 0) {
        error = errno == EINTR ? 0 : -errno;
        if (pending)
            kill(child, SIGTERM); /* a terminal also sends SIGINT to the command */
    }
    ret->clock = clocks_end();
    ret->wall_s = (double)(gf_now_ns() - start_ns) / 1e9;
    if (pending)
        error = -EINTR;
    else if (error)
        gf_cli_error("cannot run the command: %s", strerror(-error));
    else if (status)
        error = report_failure(arm, folder->fd, status);
    collect(folder->fd, &ret->figures);
    return error;
}

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
    GF_OWNED double *ratios = gf_cli_alloc(RESAMPLES, sizeof(*ratios));
    /* The sides of a pair are drawn with equal sequences, so they stay together. */
    uint64_t states[2] = {SEED, paired ? SEED : SEED + 1};

    for (size_t i = 0; i < RESAMPLES; i++) {
        const double before = resample(values[0], counts[0], &states[0]);
        ratios[i] = resample(values[1], counts[1], &states[1]) / before;
    }
    qsort(ratios, RESAMPLES, sizeof(*ratios), gf_by_double);
    const size_t cut = (size_t)(tail(gf_min(counts[0], counts[1])) * RESAMPLES);
    return (struct gf_ratio){gf_mean(values[1], counts[1]) / gf_mean(values[0], counts[0]),
                             ratios[cut], ratios[RESAMPLES - 1 - cut]};
}

/* Creates the folder of the reports. */
static int make_folder(struct run_folder *ret)
{
    const char *parent = getenv("TMPDIR");
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
    return gf_cli_fail(-error, "cannot make the folder %s: %s; set TMPDIR", ret->path,
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
    gf_cli_error("%s: %s %.3g s, %s %.3g s", number, arms->list[0].name, runs[0].wall_s,
                 arms->list[1].name, runs[1].wall_s);
}

struct runs {
    const struct gf_arms *arms;
    char *const *command;
    const struct run_folder *folder;
    size_t done, all;
};

static int run_pair(struct runs *runs, uint64_t *random, struct gf_run ret[2])
{
    const size_t first = gf_bootstrap_random(random) & 1;
    int error = 0;

    for (size_t i = 0; i < 2 && !error; i++) {
        const size_t arm = first ^ i;
        show_progress(runs->done++, runs->all);
        error = run_once(&runs->arms->list[arm], runs->command, runs->folder, &ret[arm]);
    }
    return error;
}

static int run_pairs(struct runs *runs, size_t pairs, struct gf_side sides[2])
{
    GF_OWNED struct gf_run *both = gf_cli_alloc(2, sizeof(*both));
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
    return error;
}

int gf_trial_run(const struct gf_arms *arms, size_t pairs, char *const *command,
                 struct gf_side sides[2])
{
    struct run_folder folder;
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
