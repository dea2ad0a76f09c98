/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens to threads around their calls: waiting for a CPU, being throttled, touching pages for
 * the first time. Read at each look of our thread, told by an event where it is much.
 */
#include "engine/state.h"

#include "base/clock.h"
#include "base/fmt.h"
#include "host/cgroup.h"
#include "host/tasks.h"
#include "observe/json.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROWS 256
#define TOLD_MOST 16
/* Of an interval, in thousandths, from which on it is told. */
#define MUCH 50
/* Our thread is woken for much else, and a twentieth of little is nothing. */
#define SHORTEST_NS UINT64_C(900000000)

struct row {
    pid_t tid; /* 0: free */
    bool seen;
    struct gf_task_account account;
};

static struct {
    struct row row[ROWS];
    uint64_t at_ns, throttled_ns;
    uint64_t fault_ns; /* what a page's first touch takes here */
} past;

struct look {
    struct gf_json json;
    uint64_t interval_ns, throttled_ns;
    unsigned told;
};

/* Over 64 pages of our own: an estimate, but of this machine. */
static uint64_t measure_fault(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), size = 64 * page;
    char *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (pages == MAP_FAILED)
        return 0;
    madvise(pages, size, MADV_NOHUGEPAGE);
    const uint64_t start = gf_now_ns();
    for (size_t at = 0; at < size; at += page)
        *(volatile char *)(pages + at) = 1;
    const uint64_t took = gf_now_ns() - start;
    munmap(pages, size);
    return took / 64;
}

static struct row *row_of(pid_t tid)
{
    const unsigned start = (unsigned)tid % ROWS;

    for (unsigned i = 0; i < ROWS; i++) {
        struct row *row = &past.row[(start + i) % ROWS];
        if (row->tid == tid)
            return row;
        if (!row->tid) {
            *row = (struct row){.tid = tid};
            return row;
        }
    }
    return NULL;
}

static bool is_much(uint64_t ns, uint64_t interval_ns)
{
    return ns * 1000 >= interval_ns * MUCH;
}

static void tell(struct look *look, pid_t tid, const struct gf_task_account *now,
                 const struct gf_task_account *before)
{
    const uint64_t delay = now->delay_ns - before->delay_ns, run = now->run_ns - before->run_ns;
    const uint64_t minor = now->minor - before->minor, major = now->major - before->major;
    const uint64_t faults = gf_min(minor * past.fault_ns, run);

    if ((!is_much(delay, look->interval_ns) && !is_much(faults, look->interval_ns) &&
         major < 100) ||
        look->told++ >= TOLD_MOST)
        return;
    gf_json_begin(&look->json, NULL, '{');
    gf_json_int(&look->json, "tid", tid);
    gf_json_text(&look->json, "thread", now->name);
    gf_json_size(&look->json, "run_ms", run / 1000000);
    gf_json_size(&look->json, "delay_ms", delay / 1000000);
    gf_json_size(&look->json, "throttled_ms", gf_min(delay, look->throttled_ns) / 1000000);
    gf_json_size(&look->json, "minor_faults", minor);
    gf_json_size(&look->json, "fault_ms", faults / 1000000);
    gf_json_size(&look->json, "major_faults", major);
    gf_json_end(&look->json, '}');
}

static void see(void *closure, int task, pid_t tid)
{
    struct look *look = closure;
    struct gf_task_account now;
    struct row *row = row_of(tid);

    if (!row || gf_tasks_account(task, tid, &now))
        return;
    /* A tid that was given again begins anew. */
    if (look->interval_ns && row->account.run_ns && now.run_ns >= row->account.run_ns)
        tell(look, tid, &now, &row->account);
    row->account = now;
    row->seen = true;
}

static void forget_dead(void)
{
    struct row old[ROWS];

    memcpy(old, past.row, sizeof(old));
    memset(past.row, 0, sizeof(past.row));
    for (unsigned i = 0; i < ROWS; i++) {
        struct row *row = old[i].seen ? row_of(old[i].tid) : NULL;
        if (row)
            row->account = old[i].account;
    }
}

void gf_intervals_look(void)
{
    char text[4096];
    const uint64_t now = gf_now_ns();
    struct look look = {.json = {.buf = text, .size = sizeof(text)}};

    if (!gf_process.door->log_wanted() || (past.at_ns && now - past.at_ns < SHORTEST_NS))
        return;
    if (!past.fault_ns)
        past.fault_ns = measure_fault();
    look.interval_ns = past.at_ns ? now - past.at_ns : 0;
    const uint64_t throttled = gf_cgroup_throttled_ns("");
    look.throttled_ns = throttled - gf_min(past.throttled_ns, throttled);
    gf_json_begin(&look.json, NULL, '{');
    gf_json_size(&look.json, "interval_ms", look.interval_ns / 1000000);
    gf_json_begin(&look.json, "threads", '[');
    gf_tasks_each(0, see, &look);
    gf_json_end(&look.json, ']');
    gf_json_size(&look.json, "throttled_ms", look.throttled_ns / 1000000);
    gf_json_end(&look.json, '}');
    const bool told = look.told || (past.at_ns && is_much(look.throttled_ns, look.interval_ns));
    past.at_ns = now;
    past.throttled_ns = throttled;
    forget_dead();
    if (told && gf_json_close(&look.json))
        gf_process.door->log("threads", text);
}
