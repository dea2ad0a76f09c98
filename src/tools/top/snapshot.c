/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/top/top.h"

#include "abi/formats.h"
#include "base/clock.h"
#include "base/fmt.h"
#include "base/input_file.h"
#include "base/path.h"
#include "host/tasks.h"
#include "os/launch.h"
#include "os/procfs.h"
#include "tools/common/cli.h"
#include "tools/common/text.h"
#include "tools/job/job_input.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

/*
 * Reads the start environment of a process. The list ends with NULL; it has no variables if the
 * environment cannot be read. The caller frees the list, whose texts are valid until the next call.
 */
static char **read_environment(pid_t pid)
{
    static char text[4 << 20];
    char **list = NULL;
    size_t count = 0;
    FILE *file = fopen(gf_text("/proc/%d/environ", pid), "re");
    const size_t size = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
    if (file)
        fclose(file);
    text[size] = '\0';
    for (size_t at = 0; at < size; at += strlen(text + at) + 1)
        *GF_JOB_ADD(list, count) = text + at;
    *GF_JOB_ADD(list, count) = NULL;
    return list;
}

#define TEXT_MAX ((uint64_t)GF_REPORT_MOST)
/*
 * The time for one process, whatever its descriptors and files are. The process may be preempted
 * while it writes its figures, so they are read again each millisecond.
 */
#define BUDGET_NS UINT64_C(60000000)
#define DESCRIPTORS_MOST 4096 /* of all threads of the library in one process */

/* Parses a text that another process wrote. Returns NULL if it is not a report. */
static json_t *parse(const char *text, size_t length)
{
    json_t *report = json_loadb(text, length, 0, NULL);

    if (json_is_integer(json_object_get(report, "schema")))
        return report;
    json_decref(report);
    return NULL;
}

static bool read_all(int fd, void *buf, size_t size, off_t at)
{
    return pread(fd, buf, size, at) == (ssize_t)size;
}

/* Whether both headers name the same text. */
static bool is_same_text(const struct gf_live_header *a, const struct gf_live_header *b)
{
    return a->sequence == b->sequence && a->text_at == b->text_at && a->text_bytes == b->text_bytes;
}

/*
 * Tries to read the file. Returns false if the process wrote at the same time, or the file is
 * damaged. The kernel may copy the bytes of a header in any order. So an even sequence number does
 * not show that the other fields belong to the same text, and the header is compared with the
 * header after the text was read.
 */
static bool try_read(int fd, pid_t pid, struct gf_snapshot *ret)
{
    struct gf_live_header before, after;

    if (!read_all(fd, &before, sizeof(before), 0) ||
        memcmp(before.magic, GF_LIVE_MAGIC, sizeof(before.magic)) != 0 || before.pid != pid)
        return false;
    if (before.version > GF_LIVE_VERSION) {
        ret->source = gf_snapshot_newer;
        return true;
    }
    if (before.sequence % 2 || !before.text_bytes || before.text_bytes > TEXT_MAX)
        return false;
    GF_OWNED char *text = malloc(before.text_bytes);
    if (text && read_all(fd, text, before.text_bytes, (off_t)before.text_at) &&
        read_all(fd, &after, sizeof(after), 0) && is_same_text(&before, &after))
        ret->report = parse(text, before.text_bytes);
    if (ret->report)
        ret->source = gf_snapshot_live;
    return ret->report != NULL;
}

/* A search for the figures of one process. */
struct search {
    uint64_t until_ns;
    unsigned descriptors;
};

static bool is_over(const struct search *search)
{
    return search->descriptors >= DESCRIPTORS_MOST || gf_now_ns() >= search->until_ns;
}

static void read_live(const char *path, const struct search *search, struct gf_snapshot *ret)
{
    const int fd = gf_input_open(path);

    while (fd >= 0 && !try_read(fd, ret->pid, ret) && !is_over(search))
        gf_sleep_ns(1000000);
    if (fd >= 0)
        close(fd);
}

/* Returns the next name in a folder that is a number; -1 at the end of the folder. */
static long next_number(struct gf_folder *folder)
{
    for (const char *name; (name = gf_folder_next(folder));)
        if (*name >= '0' && *name <= '9')
            return strtol(name, NULL, 10);
    return -1;
}

static bool is_live_file(const char *path)
{
    static const char wanted[] = "/memfd:" GF_LIVE_NAME;
    char target[64];
    const ssize_t length = readlink(path, target, sizeof(target) - 1);

    return length >= (ssize_t)(sizeof(wanted) - 1) &&
           memcmp(target, wanted, sizeof(wanted) - 1) == 0;
}

static void search_thread(long tid, struct search *search, struct gf_snapshot *ret)
{
    GF_FOLDER(folder, gf_text("/proc/%d/task/%ld/fd", ret->pid, tid));
    for (long fd;
         ret->source == gf_snapshot_none && !is_over(search) && (fd = next_number(&folder)) >= 0;
         search->descriptors++) {
        const char *path = gf_text("/proc/%d/task/%ld/fd/%ld", ret->pid, tid, fd);
        if (is_live_file(path))
            read_live(path, search, ret);
    }
}

static bool is_library_thread(pid_t pid, long tid)
{
    char name[32];

    return gf_procfs_read(name, sizeof(name), "", "proc/%d/task/%ld/comm", pid, tid) > 0 &&
           strncmp(name, "gpufeed", strlen("gpufeed")) == 0;
}

/*
 * Searches the descriptors of the library's threads. One of these threads has the file open,
 * perhaps in a private descriptor table.
 */
static void search_threads(struct gf_snapshot *ret)
{
    struct search search = {.until_ns = gf_now_ns() + BUDGET_NS};

    GF_FOLDER(folder, gf_text("/proc/%d/task", ret->pid));
    for (long tid;
         ret->source == gf_snapshot_none && !is_over(&search) && (tid = next_number(&folder)) >= 0;)
        if (is_library_thread(ret->pid, tid))
            search_thread(tid, &search, ret);
}

#define THREADS_MOST 65536 /* whose names are read; a worker has fewer */

bool gf_snapshot_is_worker(pid_t pid, pid_t *ret_parent, bool *ret_runs)
{
    char text[512];
    bool is_worker = true;
    unsigned threads = 0;

    if (gf_procfs_read(text, sizeof(text), "", "proc/%d/stat", pid) <= 0)
        return false;
    const char *state = gf_procfs_stat(text, 3), *parent = gf_procfs_stat(text, 4);
    if (!state || !parent)
        return false;
    *ret_runs = *state == 'R';
    *ret_parent = (pid_t)gf_procfs_number(parent);
    GF_FOLDER(folder, gf_text("/proc/%d/task", pid));
    for (long tid; is_worker && (tid = next_number(&folder)) >= 0; threads++)
        is_worker = threads < THREADS_MOST && !is_library_thread(pid, tid);
    return is_worker;
}

/*
 * Finds the path of the report in the process's start environment. Returns false if it is not set.
 */
static bool report_path(pid_t pid, char *ret, size_t size)
{
    GF_OWNED char **env = read_environment(pid);
    const char *pattern = gf_launch_variable(env, "GPUFEED_REPORT");
    struct gf_rank rank;

    gf_launch_rank(env, &rank);
    return pattern && *pattern && gf_path_expand(pattern, pid, rank.rank, ret, size) == 0;
}

/*
 * Reads the report file. Its path is relative to the root or the working folder of the process,
 * which may be in a container.
 */
static void read_file(struct gf_snapshot *ret)
{
    char expanded[PATH_MAX], path[PATH_MAX + 32];
    size_t length;

    if (!report_path(ret->pid, expanded, sizeof(expanded)))
        return;
    snprintf(path, sizeof(path), "/proc/%d/%s%s", ret->pid, *expanded == '/' ? "root" : "cwd/",
             expanded);
    GF_OWNED char *text = gf_whole_file_read(path, TEXT_MAX, &length);
    json_t *report = text ? json_loadb(text, length, 0, NULL) : NULL;
    if (json_integer_value(json_object_get(report, "pid")) == ret->pid) {
        ret->report = report;
        ret->source = gf_snapshot_file;
    } else {
        json_decref(report); /* another rank or an earlier job wrote it */
    }
}

/* Whether GPUFEED_LIVE or GPUFEED_REPORT makes the process write its figures. */
static bool is_wanted(pid_t pid)
{
    GF_OWNED char **env = read_environment(pid);
    const char *live = gf_launch_variable(env, "GPUFEED_LIVE"),
               *report = gf_launch_variable(env, "GPUFEED_REPORT");

    return (live && strcmp(live, "on") == 0) || (report && *report);
}

static bool is_of_job(pid_t pid, const char *job)
{
    GF_OWNED char **env = read_environment(pid);

    for (size_t i = 0; gf_launch_job_variables[i]; i++) {
        const char *value = gf_launch_variable(env, gf_launch_job_variables[i]);
        if (value && strcmp(value, job) == 0)
            return true;
    }
    return false;
}

/* Reads the command line, and separates its words by blanks. */
static void read_command(pid_t pid, char *ret, size_t size)
{
    int length = gf_max(gf_procfs_read(ret, size, "", "proc/%d/cmdline", pid), 0);

    for (int i = 0; i < length; i++)
        if (!ret[i])
            ret[i] = ' ';
    while (length && ret[length - 1] == ' ')
        length--;
    ret[length] = '\0';
    gf_plain_text(ret);
}

void gf_snapshot_read(pid_t pid, struct gf_snapshot *ret)
{
    *ret = (struct gf_snapshot){.pid = pid, .source = gf_snapshot_none};
    search_threads(ret);
    if (ret->source == gf_snapshot_none)
        read_file(ret);
    if (ret->source == gf_snapshot_none)
        ret->is_wanted = is_wanted(pid);
    read_command(pid, ret->command, sizeof(ret->command));
}

/*
 * Children that read for too long. SIGKILL does not end one that waits for a FUSE file system. Those
 * that read processes of other users leave space for others.
 */
#define SILENT_OTHERS_MOST (GF_FOUND_MOST / 2)
#define SILENT_OTHER_MOST 8 /* of one other user */
static struct silent {
    pid_t pid, reader;
    uid_t user;
} silent[GF_FOUND_MOST];
static size_t silent_count;

/*
 * Sets *ret_hung to the number of children that still read processes of this user. Returns whether one
 * of them reads this process, or no more can be started.
 */
static bool is_silent(pid_t pid, uid_t user, size_t *ret_hung)
{
    bool ret = false;

    *ret_hung = 0;
    for (size_t i = silent_count; i-- > 0;)
        if (waitpid(silent[i].reader, NULL, WNOHANG)) {
            silent[i] = silent[--silent_count];
        } else {
            ret |= silent[i].pid == pid;
            *ret_hung += silent[i].user == user;
        }
    return ret || silent_count == GF_FOUND_MOST ||
           (user != geteuid() &&
            (*ret_hung >= SILENT_OTHER_MOST || silent_count >= SILENT_OTHERS_MOST));
}

static void begin_child(int fd)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(fd, STDOUT_FILENO); /* a hanging child must not keep the output open */
    dup2(fd, STDERR_FILENO);
}

static _Noreturn void run_reader(int fd, pid_t pid, const char *job)
{
    FILE *const out = fdopen(fd, "w");
    struct gf_snapshot one = {.pid = pid, .source = gf_snapshot_none};

    begin_child(fd);
    if (job)
        one.is_of_job = is_of_job(pid, job);
    else
        gf_snapshot_read(pid, &one);
    if (out && fwrite(&one, sizeof(one), 1, out) == 1 && one.report)
        json_dumpf(one.report, out, JSON_COMPACT);
    if (out)
        fclose(out);
    _exit(0);
}

/* Sets *ret to what the reader wrote, which the caller frees. Returns false if the time was over. */
static bool receive(int fd, uint64_t until_ns, char **ret, size_t *ret_length)
{
    char part[65536];
    FILE *const all = open_memstream(ret, ret_length);
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    ssize_t got = 1;

    for (uint64_t now; all && got > 0 && (now = gf_now_ns()) < until_ns;) {
        if (poll(&poller, 1, (int)((until_ns - now) / 1000000) + 1) <= 0)
            continue;
        got = read(fd, part, sizeof(part));
        fwrite(part, 1, got > 0 ? (size_t)got : 0, all);
    }
    if (all)
        fclose(all);
    return got == 0;
}

/* There may be a million processes, so the real id is read only if the effective one is that of this user. */
static uid_t user_of(pid_t pid)
{
    struct stat found;
    const bool is_other = !stat(gf_text("/proc/%d", pid), &found) && found.st_uid != geteuid();

    return is_other ? found.st_uid : gf_procfs_user(pid);
}

/* The more children hang, the shorter is the wait for the next one. */
#define PATIENCE_NS UINT64_C(4000000000)
#define PATIENCE_HALVES 5
/*
 * How long the processes of other users may keep one list waiting. Those of one user get half of what
 * the others have left, so that no user leaves nothing to the next. Of a user's many processes, each may
 * answer shortly before its time is over. An answer within QUICK_NS counts half, because on a busy machine
 * any answer may take some milliseconds.
 */
#define OTHERS_NS PATIENCE_NS
#define QUICK_NS UINT64_C(50000000)
#define USERS_MOST 256 /* the last one stands for all others */
static struct wait {
    uid_t user;
    uint64_t ns;
} waits[USERS_MOST];
static size_t wait_count;
static uint64_t others_ns; /* the sum of waits */

/* Returns how long this user's processes have kept the list waiting; NULL for the command's user. */
static struct wait *find_wait(uid_t user)
{
    size_t at = 0;

    if (user == geteuid())
        return NULL;
    while (at < wait_count && waits[at].user != user)
        at++;
    at = gf_min(at, (size_t)USERS_MOST - 1);
    if (at == wait_count)
        waits[wait_count++] = (struct wait){user, 0};
    return &waits[at];
}

/* Returns how long the process may keep the command waiting. */
static uint64_t patience_for(const struct wait *wait, uint64_t most_ns)
{
    if (!wait)
        return most_ns;
    const uint64_t share = (OTHERS_NS - gf_min(others_ns - wait->ns, OTHERS_NS)) / 2;
    return gf_min(most_ns, share - gf_min(wait->ns, share));
}

static void count_wait(struct wait *wait, bool answered, uint64_t since_ns)
{
    uint64_t took_ns = gf_now_ns() - since_ns;

    if (!wait)
        return;
    if (answered && took_ns <= QUICK_NS)
        took_ns /= 2;
    wait->ns += took_ns;
    others_ns += took_ns;
}

void gf_snapshot_read_apart(pid_t pid, const char *job, struct gf_snapshot *ret)
{
    GF_OWNED char *text = NULL;
    size_t length = 0;
    int ends[2];

    *ret = (struct gf_snapshot){
        .pid = pid, .source = gf_snapshot_none, .is_wanted = true, .is_silent = true};
    const uid_t user = user_of(pid);
    struct wait *const wait = find_wait(user);
    const uint64_t start_ns = gf_now_ns();
    size_t hung;
    const bool is_known = is_silent(pid, user, &hung);
    const uint64_t patience =
        patience_for(wait, PATIENCE_NS >> gf_min(hung, (size_t)PATIENCE_HALVES));
    if (!patience || is_known || pipe2(ends, O_CLOEXEC))
        return;
    fflush(stdout);
    const pid_t reader = fork();
    if (reader == 0)
        run_reader(ends[1], pid, job);
    close(ends[1]);
    const bool ended = reader > 0 && receive(ends[0], start_ns + patience, &text, &length);
    close(ends[0]);
    count_wait(wait, ended, start_ns);
    if (ended && text && length >= sizeof(*ret)) {
        memcpy(ret, text, sizeof(*ret));
        ret->report = ret->report ? parse(text + sizeof(*ret), length - sizeof(*ret)) : NULL;
    }
    if (ended) {
        waitpid(reader, NULL, 0);
    } else if (reader > 0) {
        kill(reader, SIGKILL);
        silent[silent_count++] = (struct silent){pid, reader, user};
    }
}

#define CHECK_NS UINT64_C(500000000) /* of another user's process; PATIENCE_NS of this user's */
static unsigned stuck_own;
static int checker = -1; /* a socket of a child that checks processes */
static pid_t checker_pid;

static void run_checker(int end)
{
    pid_t pid;

    begin_child(end);
    while (recv(end, &pid, sizeof(pid), 0) == sizeof(pid)) {
        const int error = gf_tasks_find_map(pid, "/libgpufeed-engine.so", NULL);
        send(end, &error, sizeof(error), MSG_NOSIGNAL);
    }
    _exit(0);
}

/* Returns 0 or -errno. */
static int start_checker(void)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
        return -errno;
    fflush(stdout);
    checker_pid = fork();
    if (checker_pid == 0) {
        close(ends[0]);
        run_checker(ends[1]);
    }
    const int error = checker_pid < 0 ? -errno : 0;
    close(ends[1]);
    if (error)
        close(ends[0]);
    else
        checker = ends[0];
    return error;
}

/*
 * The kernel does not list mappings during a call of the process that changes them, which may wait for
 * a FUSE file system. So a child process reads them. A child that hangs is replaced.
 */
int gf_snapshot_check(pid_t pid)
{
    struct wait *const wait = find_wait(user_of(pid));
    const uint64_t start_ns = gf_now_ns();
    const uint64_t wait_ns =
        patience_for(wait, wait ? CHECK_NS : PATIENCE_NS >> gf_min(stuck_own, PATIENCE_HALVES));
    struct pollfd poller = {.events = POLLIN};
    int error = wait_ns ? 0 : -ETIMEDOUT, got = -1;

    if (!error && checker < 0)
        error = start_checker();
    if (error)
        return error;
    poller.fd = checker;
    if (send(checker, &pid, sizeof(pid), MSG_NOSIGNAL) == sizeof(pid))
        while ((got = poll(&poller, 1, (int)(wait_ns / 1000000) + 1)) < 0 && errno == EINTR)
            ;
    count_wait(wait, got > 0, start_ns);
    if (got > 0 && recv(checker, &error, sizeof(error), 0) == sizeof(error))
        return error;
    stuck_own += !wait && !got;
    if (!got) /* it has the socket open, so it has not ended */
        kill(checker_pid, SIGKILL);
    close(checker);
    checker = -1;
    return -ETIMEDOUT;
}

/*
 * Returns the index of the last process of the user with the most processes, other than this user;
 * if all are of this user, of the last process.
 */
static size_t find_excess(const struct gf_found *found)
{
    size_t excess = found->count - 1, most = 0;

    for (size_t i = 0; i < found->count; i++) {
        size_t same = 0;
        for (size_t k = 0; k < found->count; k++)
            same += found->users[k] == found->users[i];
        if (found->users[i] != geteuid() && same >= most) {
            most = same;
            excess = i;
        }
    }
    return excess;
}

/*
 * Appends a process to the list. If the list is full, drops one, so that no user's processes keep
 * those of others from the list.
 */
static void add_found(struct gf_found *found, pid_t pid)
{
    found->pids[found->count] = pid;
    found->users[found->count++] = user_of(pid);
    if (found->count <= GF_FOUND_MOST)
        return;
    const size_t excess = find_excess(found), later = --found->count - excess;
    memmove(&found->pids[excess], &found->pids[excess + 1], later * sizeof(*found->pids));
    memmove(&found->users[excess], &found->users[excess + 1], later * sizeof(*found->users));
    found->dropped++;
}

void gf_snapshot_begin(void)
{
    stuck_own = 0;
    others_ns = 0;
    wait_count = 0;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

int gf_snapshot_find(const char *job, struct gf_found *ret)
{
    GF_FOLDER(folder, "/proc");
    struct gf_snapshot one = {.is_of_job = !job};

    *ret = (struct gf_found){.count = 0};
    gf_snapshot_begin();
    const int failed = checker < 0 ? start_checker() : 0;
    if (failed) {
        fprintf(stderr, "gpufeed: cannot start a child process: %s\n", strerror(-failed));
        return failed;
    }
    /* The kernel's list has an end, and another user may have 100 000 processes before those of this user. */
    for (long pid; (folder.names = 0, pid = next_number(&folder)) >= 0;) {
        const int error = gf_snapshot_check((pid_t)pid);
        if (!error && job)
            gf_snapshot_read_apart((pid_t)pid, job, &one);
        const bool is_silent = error == -ETIMEDOUT || (!error && one.is_silent);
        if (is_silent && ret->silent_count++ < GF_FOUND_MOST)
            ret->silent[ret->silent_count - 1] = (pid_t)pid;
        ret->unreadable += error && !is_silent && error != -ENOENT && error != -ESRCH &&
                           user_of((pid_t)pid) != geteuid();
        if (!error && one.is_of_job)
            add_found(ret, (pid_t)pid);
    }
    return 0;
}
