/* SPDX-License-Identifier: Apache-2.0 */
/* Copies that hold their stream, and calls of other threads that wait for them. */
#include "engine/transfer/hold.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "engine/transfer/setup.h"
#include "engine/transfer/stats.h"
#include "engine/transfer/tuning.h"
#include "unit.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define OWN 3 /* the index of the copying thread's record */
#define OTHER 5
#define CONTEXT ((CUcontext)0x100)
#define ELSEWHERE ((CUcontext)0x200)
#define NON_BLOCKING ((CUstream)0x1000)
#define BLOCKING ((CUstream)0x2000)
#define OF_ELSEWHERE ((CUstream)0x3000) /* the only stream of another context */

static _Alignas(65536) struct gf_submit_table table; /* a test protects its first page */
static __thread unsigned own_index = OTHER;
static __thread CUcontext current = CONTEXT;
static bool captured, is_driver;

static unsigned submitter(void)
{
    return own_index;
}

static bool is_drivers(void)
{
    return is_driver;
}

static CUresult get_current(CUcontext *ret)
{
    *ret = current;
    return CUDA_SUCCESS;
}

static CUresult get_flags(CUstream stream, unsigned *ret)
{
    *ret = stream == NON_BLOCKING ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
    return CUDA_SUCCESS;
}

static CUresult get_context(CUstream stream, CUcontext *ret)
{
    *ret = stream == OF_ELSEWHERE ? ELSEWHERE : CONTEXT;
    return CUDA_SUCCESS;
}

static CUresult is_capturing(CUstream stream, CUstreamCaptureStatus *ret)
{
    (void)stream;
    *ret = captured ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

static const struct gf_cuda cuda = {
    .cuCtxGetCurrent = get_current,
    .cuStreamGetCtx = get_context,
    .cuStreamGetFlags = get_flags,
    .cuStreamIsCapturing = is_capturing,
};

static int start(void **state)
{
    (void)state;
    gf_setup = (struct gf_transfer_setup){
        .cuda = &cuda, .submissions = &table, .submitter = submitter, .is_drivers = is_drivers};
    gf_hold_start();
    own_index = OWN;
    return 0;
}

/* A call of another thread. */
struct call {
    pthread_t thread;
    CUstream stream;
    CUcontext context;
    _Atomic bool over;
    uint64_t ns;
};

static void *submit(void *closure)
{
    struct call *call = closure;
    const uint64_t begun = gf_now_ns();

    current = call->context;
    gf_hold_await(call->stream, false);
    call->ns = gf_now_ns() - begun;
    gf_store_release(&call->over, true);
    return NULL;
}

static void begin_call(struct call *ret, CUstream stream, CUcontext context)
{
    *ret = (struct call){.stream = stream, .context = context};
    assert_int_equal(pthread_create(&ret->thread, NULL, submit, ret), 0);
}

/* Whether a call on this stream goes on while the copy holds its stream. */
static bool goes_on(CUstream stream, CUcontext context)
{
    struct gf_copy_stats before, after;
    struct call call;

    gf_copy_stats_read(&before);
    begin_call(&call, stream, context);
    pthread_join(call.thread, NULL);
    gf_copy_stats_read(&after);
    return after.holds.met == before.holds.met;
}

static void hold(CUstream stream, struct gf_hold *ret)
{
    assert_true(gf_hold_begin(stream, CONTEXT, ret));
    gf_hold_cut(ret);
}

/* After another thread has ended the hold, no DMA may go to the stream: the copy would wait for that thread's work. */
static void a_lost_hold_issues_nothing(void **state)
{
    (void)state;
    struct gf_hold held, issuing;
    struct call call;

    hold(NON_BLOCKING, &held);
    assert_true(gf_hold_issue_begin(&held, &issuing));
    gf_hold_issue_end(&issuing);
    begin_call(&call, NON_BLOCKING, CONTEXT);
    pthread_join(call.thread, NULL); /* no progress, so the call has ended the hold */
    assert_false(gf_hold_issue_begin(&held, &issuing));
    gf_hold_issue_end(&issuing);
    gf_hold_end(&held);
    assert_int_equal(gf_load_relaxed(&table.holds), 0);
}

/* While a DMA is being issued, a call does not end the hold. */
static void a_hold_that_issues_stays(void **state)
{
    (void)state;
    struct gf_hold held, issuing;
    struct call call;

    hold(NON_BLOCKING, &held);
    assert_true(gf_hold_issue_begin(&held, &issuing));
    begin_call(&call, NON_BLOCKING, CONTEXT);
    usleep(GF_TUNE_HOLD_NS / 1000 * 3);
    assert_false(gf_load_acquire(&call.over));
    gf_hold_issue_end(&issuing);
    gf_hold_end(&held);
    pthread_join(call.thread, NULL);
    assert_int_equal(gf_load_relaxed(&table.holds), 0);
}

/* Returns false if this thread got no CPU for so long that the call stopped waiting. */
static bool waits_for_the_copy(void)
{
    struct gf_copy_stats before, after;
    struct gf_hold held;
    struct call call;

    gf_copy_stats_read(&before);
    hold(NON_BLOCKING, &held);
    begin_call(&call, NON_BLOCKING, CONTEXT);
    for (unsigned i = 0; i < 20; i++) { /* longer than a wait without progress */
        struct gf_hold issuing;
        gf_hold_issue_begin(&held, &issuing);
        gf_hold_issue_end(&issuing);
        usleep(5000);
    }
    const bool over = gf_load_acquire(&call.over);
    gf_copy_stats_read(&after);
    gf_hold_end(&held);
    pthread_join(call.thread, NULL);
    assert_int_equal(gf_load_relaxed(&table.holds), 0);
    if (after.holds.ended != before.holds.ended)
        return false;
    assert_false(over);
    return true;
}

static void a_call_waits_for_the_copy(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 10 && !waits_for_the_copy(); i++)
        continue;
    assert_true(gf_hold_is_shared(NON_BLOCKING, CONTEXT));
    assert_false(gf_hold_is_shared(NON_BLOCKING, ELSEWHERE));
    assert_false(gf_hold_is_shared(BLOCKING, CONTEXT));
}

static void a_copy_without_progress_is_ended(void **state)
{
    (void)state;
    struct gf_copy_stats before, after;
    struct gf_hold held;

    gf_copy_stats_read(&before);
    hold(NON_BLOCKING, &held);
    struct call call;
    begin_call(&call, NON_BLOCKING, CONTEXT);
    pthread_join(call.thread, NULL);
    assert_true(call.ns >= GF_TUNE_HOLD_NS);
    assert_int_equal(gf_load_relaxed(&table.holds), 0);
    gf_copy_stats_read(&after);
    assert_int_equal(after.holds.ended - before.holds.ended, 1);
    struct gf_hold next; /* may use the same entry */
    hold(BLOCKING, &next);
    gf_hold_end(&held); /* ends nothing */
    assert_int_equal(gf_load_relaxed(&table.holds), 1);
    gf_hold_end(&next);
}

/* Stops this process for STOP_US. */
#define STOP_US 300000
static void stop_process(void)
{
    const pid_t child = fork();
    if (child == 0) {
        kill(getppid(), SIGSTOP);
        usleep(STOP_US);
        kill(getppid(), SIGCONT);
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* While the process is stopped, its copies make no progress, but no call waits for them either. */
static void a_stop_does_not_count(void **state)
{
    (void)state;
    const uint64_t stop_ns = UINT64_C(1000) * STOP_US;
    struct call call;

    for (unsigned i = 0; i < 20; i++) {
        struct gf_hold held;
        hold(NON_BLOCKING, &held);
        begin_call(&call, NON_BLOCKING, CONTEXT);
        stop_process();
        pthread_join(call.thread, NULL);
        gf_hold_end(&held);
        if (call.ns >= stop_ns) /* else the call did not last until the stop */
            break;
    }
    assert_true(call.ns >= stop_ns + GF_TUNE_HOLD_NS / 2);
}

/* Late timers stand for busy CPUs, on which the copying thread does not run either. */
static void busy_cpus_do_not_count(void **state)
{
    (void)state;
    struct gf_hold held;
    struct call call = {.ns = 0};

    /* Where other timers end often, the thread may wake without its slack. */
    for (int i = 0; i < 10 && call.ns < 4 * GF_TUNE_HOLD_NS; i++) {
        hold(NON_BLOCKING, &held);
        prctl(PR_SET_TIMERSLACK, 2000000UL); /* new threads inherit it */
        begin_call(&call, NON_BLOCKING, CONTEXT);
        prctl(PR_SET_TIMERSLACK, 0UL);
        pthread_join(call.thread, NULL);
        gf_hold_end(&held);
    }
    assert_true(call.ns >= 4 * GF_TUNE_HOLD_NS);
}

/* Each row: a held stream, and a stream of a call, which is ordered with it or not. */
static void streams_that_are_ordered(void **state)
{
    (void)state;
    static const struct {
        CUstream held, stream;
        CUcontext context;
        bool waits;
    } rows[] = {
        {NON_BLOCKING, NON_BLOCKING, ELSEWHERE, true},
        {NON_BLOCKING, BLOCKING, CONTEXT, false},
        {NON_BLOCKING, CU_STREAM_LEGACY, CONTEXT, false},
        {BLOCKING, CU_STREAM_LEGACY, CONTEXT, true},
        {BLOCKING, CU_STREAM_LEGACY, ELSEWHERE, false},
        {BLOCKING, CU_STREAM_PER_THREAD, CONTEXT, false},
        {CU_STREAM_LEGACY, CU_STREAM_LEGACY, CONTEXT, true},
        {CU_STREAM_LEGACY, CU_STREAM_LEGACY, ELSEWHERE, false},
        {CU_STREAM_LEGACY, BLOCKING, CONTEXT, true},
        {CU_STREAM_LEGACY, BLOCKING, ELSEWHERE, true},
        {CU_STREAM_LEGACY, OF_ELSEWHERE, ELSEWHERE, false},
        {CU_STREAM_LEGACY, NON_BLOCKING, CONTEXT, false},
        {CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, CONTEXT, true},
        {CU_STREAM_PER_THREAD, CU_STREAM_LEGACY, CONTEXT, true},
        {CU_STREAM_PER_THREAD, CU_STREAM_PER_THREAD, CONTEXT, false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct gf_hold held;
        hold(rows[i].held, &held);
        const bool waited = !goes_on(rows[i].stream, rows[i].context);
        if (waited != rows[i].waits)
            fail_msg("row %zu: the call %s", i, waited ? "waited" : "went on");
        gf_hold_end(&held);
    }
}

static void calls_that_never_wait(void **state)
{
    (void)state;
    struct gf_hold held;

    hold(NON_BLOCKING, &held);
    gf_hold_await(NON_BLOCKING, false); /* the copying thread itself */
    captured = true;
    assert_true(goes_on(NON_BLOCKING, CONTEXT));
    captured = false;
    assert_int_equal(gf_load_relaxed(&table.holds), 1);
    is_driver = true; /* the hold ends, so that the copy does not wait for what the call submits */
    assert_true(goes_on(NON_BLOCKING, CONTEXT));
    is_driver = false;
    assert_int_equal(gf_load_relaxed(&table.holds), 0);
    gf_hold_end(&held);
}

static void a_call_that_does_not_wait_ends_a_hold_that_issues(void **state)
{
    (void)state;
    struct gf_hold held, issuing;

    hold(NON_BLOCKING, &held);
    assert_true(gf_hold_issue_begin(&held, &issuing));
    is_driver = true;
    assert_true(goes_on(NON_BLOCKING, CONTEXT));
    is_driver = false;
    gf_hold_issue_end(&issuing);
    assert_false(gf_hold_issue_begin(&held, &issuing));
    gf_hold_end(&held);
    assert_int_equal(gf_load_relaxed(&table.holds), 0);
}

static bool waits_for_a_file(void)
{
    struct gf_hold held;
    struct call call;

    hold(NON_BLOCKING, &held);
    gf_hold_reads_file(&held);
    begin_call(&call, NON_BLOCKING, CONTEXT);
    usleep(GF_TUNE_HOLD_NS / 1000 * 3);
    const bool over = gf_load_acquire(&call.over);
    gf_hold_end(&held);
    pthread_join(call.thread, NULL);
    return !over;
}

/* A slow disk is no reason to divide a copy. */
static void a_copy_from_a_file_is_awaited_longer(void **state)
{
    (void)state;
    struct gf_hold held;
    bool waited = false;

    for (unsigned i = 0; i < 10 && !waited; i++) /* this thread may get no CPU for long */
        waited = waits_for_a_file();
    assert_true(waited);
    hold(NON_BLOCKING, &held); /* may use the same entry */
    assert_false(goes_on(NON_BLOCKING, CONTEXT));
    gf_hold_end(&held);
    assert_int_equal(gf_load_relaxed(&table.holds), 0);
}

static bool holds_beside(CUstream stream, uintptr_t call)
{
    struct gf_hold held;

    gf_store_relaxed(&table.submitters[OTHER].stream, call);
    const bool ret = gf_hold_begin(stream, CONTEXT, &held);
    assert_int_equal(gf_load_relaxed(&table.holds), ret);
    gf_hold_end(&held);
    gf_store_relaxed(&table.submitters[OTHER].stream, 0);
    return ret;
}

/* A thread that is inside a call may already have looked for holds. */
static void a_copy_beside_a_call_holds_nothing(void **state)
{
    (void)state;
    const uintptr_t legacy = (uintptr_t)CU_STREAM_LEGACY;
    const uintptr_t own = (uintptr_t)NON_BLOCKING | GF_SUBMIT_NON_BLOCKING;

    assert_false(holds_beside(NON_BLOCKING, (uintptr_t)NON_BLOCKING));
    assert_false(holds_beside(NON_BLOCKING, own));
    assert_false(holds_beside(NON_BLOCKING, GF_SUBMIT_SEVERAL));
    assert_true(holds_beside(NON_BLOCKING, (uintptr_t)BLOCKING));
    assert_true(holds_beside(NON_BLOCKING, legacy));
    assert_true(holds_beside(CU_STREAM_LEGACY, own));
    assert_false(holds_beside(CU_STREAM_LEGACY, legacy));
    assert_false(holds_beside(CU_STREAM_LEGACY, (uintptr_t)BLOCKING));
    assert_false(holds_beside(BLOCKING, legacy));
    gf_store_relaxed(&table.submitters[OTHER].context, (uintptr_t)ELSEWHERE);
    assert_true(holds_beside(CU_STREAM_LEGACY, legacy));
    gf_store_relaxed(&table.submitters[OTHER].context, (uintptr_t)CONTEXT);
    assert_false(holds_beside(CU_STREAM_LEGACY, legacy));
    gf_store_relaxed(&table.submitters[OTHER].context, 0);
    gf_store_relaxed(&table.submitters[GF_SUBMITTERS_OWN].stream, GF_SUBMIT_SOME);
    assert_false(holds_beside(NON_BLOCKING, 0));
    gf_store_relaxed(&table.submitters[GF_SUBMITTERS_OWN].stream, 0);
    own_index = GF_SUBMITTERS; /* a thread without a record of its own */
    assert_false(holds_beside(NON_BLOCKING, 0));
    own_index = OWN;
}

static bool others_beside(unsigned own, uintptr_t other, uintptr_t shared)
{
    own_index = own;
    gf_store_relaxed(&table.submitters[OWN].stream, own == OWN ? (uintptr_t)BLOCKING : 0);
    gf_store_relaxed(&table.submitters[OTHER].stream, other);
    gf_store_relaxed(&table.submitters[GF_SUBMITTERS_OWN].stream, shared);
    const bool ret = gf_hold_others_submit();
    for (unsigned i = 0; i < GF_SUBMITTERS; i++)
        gf_store_relaxed(&table.submitters[i].stream, 0);
    own_index = OWN;
    return ret;
}

/* A thread without a record of its own is in the sum of a shared one. */
static void calls_of_others_on_any_stream(void **state)
{
    (void)state;
    assert_false(others_beside(OWN, 0, 0));
    assert_true(others_beside(OWN, (uintptr_t)NON_BLOCKING, 0));
    assert_true(others_beside(OWN, 0, GF_SUBMIT_SOME));
    assert_false(others_beside(GF_SUBMITTERS, 0, GF_SUBMIT_SOME));
    assert_true(others_beside(GF_SUBMITTERS, (uintptr_t)NON_BLOCKING, GF_SUBMIT_SOME));
    assert_true(others_beside(GF_SUBMITTERS, 0, 2 * GF_SUBMIT_SOME));
}

static void members_of_a_batch(void **state)
{
    (void)state;
    struct gf_hold member;

    gf_hold_publish(NON_BLOCKING, CONTEXT);
    assert_true(gf_hold_begin_batch(NON_BLOCKING, CONTEXT));
    assert_true(gf_hold_is_batch(NON_BLOCKING, CONTEXT));
    assert_true(gf_hold_begin(NON_BLOCKING, CONTEXT, &member));
    assert_int_equal(gf_load_relaxed(&table.holds), 1);
    gf_hold_end(&member);
    assert_int_equal(gf_load_relaxed(&table.holds), 1);
    gf_hold_end_batch();
    assert_int_equal(gf_load_relaxed(&table.holds), 0);
}

/* After another thread has ended the batch's hold, each member needs a hold of its own. */
static void members_of_a_batch_that_lost_its_hold(void **state)
{
    (void)state;
    struct gf_hold member, issuing;
    const struct gf_hold queued = {0}; /* a member that is one DMA behind the stream's work */

    gf_hold_publish(NON_BLOCKING, CONTEXT);
    assert_true(gf_hold_begin_batch(NON_BLOCKING, CONTEXT));
    assert_false(goes_on(NON_BLOCKING, CONTEXT)); /* no progress, so the call has ended the hold */
    assert_false(gf_hold_is_batch(NON_BLOCKING, CONTEXT));
    assert_true(gf_hold_issue_begin(&queued, &issuing));
    assert_true(gf_hold_begin(NON_BLOCKING, CONTEXT, &member));
    assert_true(gf_hold_issue_begin(&member, &issuing));
    gf_hold_issue_end(&issuing);
    gf_hold_end(&member);
    gf_hold_end_batch();
    assert_int_equal(gf_load_relaxed(&table.holds), 0);
}

/* More copies than entries hold no further stream. */
static void too_many(void **state)
{
    (void)state;
    struct gf_hold held[64];
    unsigned count = 0;

    while (count < 64 &&
           gf_hold_begin((CUstream)(uintptr_t)(0x4000 + count * 64), CONTEXT, &held[count]))
        count++;
    assert_in_range(count, 8, 63);
    while (count)
        gf_hold_end(&held[--count]);
    assert_int_equal(gf_load_relaxed(&table.holds), 0);
}

/* Two threads that list a stream at the same time take two slots. Hooks count results in the one that is looked at first. */
static void a_stream_that_is_listed_twice(void **state)
{
    (void)state;
    CUstream stream = (CUstream)0x5000;
    struct gf_visible_mark mark;

    while (gf_stream_slot_probe(&table, stream, 1) != table.slots)
        stream = (CUstream)((uintptr_t)stream + 64);
    for (unsigned i = 0; i < 2; i++) {
        struct gf_stream_slot *slot = gf_stream_slot_probe(&table, stream, i);
        gf_store_relaxed(&slot->stream, (uintptr_t)stream);
        gf_store_relaxed(&slot->visible.context, (uintptr_t)CONTEXT);
    }
    assert_false(gf_visible_is_pending(stream, CONTEXT, &mark));
    gf_add_release(&gf_stream_slot_find(&table, stream)->visible.made, 1);
    assert_true(gf_visible_is_pending(stream, CONTEXT, &mark));
    gf_visible_waited(&mark);
    assert_false(gf_visible_is_pending(stream, CONTEXT, &mark));
}

static struct gf_stream_slot *reused;

static int protect_first_page(int protection)
{
    return mprotect(&table, (size_t)sysconf(_SC_PAGESIZE), protection);
}

/* What other threads do while a copy looks at a stream's count: they unlist it, and list another one with a result. */
static void reuse_slot(int number)
{
    (void)number;
    if (protect_first_page(PROT_READ | PROT_WRITE) != 0)
        _exit(1);
    gf_store_relaxed(&reused->stream, 0x8000);
    gf_add_release(&reused->visible.made, 1);
}

/* A wait for the first stream must not end the result of the second one. */
static void a_stream_whose_slot_is_reused(void **state)
{
    const struct sigaction action = {.sa_handler = reuse_slot};
    const CUstream stream = (CUstream)0x7000;
    struct sigaction before;
    struct gf_visible_mark mark;

    (void)state;
    reused = gf_stream_slot_probe(&table, stream, 0);
    gf_store_relaxed(&reused->stream, (uintptr_t)stream);
    gf_store_relaxed(&reused->visible.context, (uintptr_t)CONTEXT);
    assert_int_equal(sigaction(SIGSEGV, &action, &before), 0);
    assert_int_equal(protect_first_page(PROT_NONE), 0);
    assert_true(gf_visible_is_pending(stream, CONTEXT, &mark));
    assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
    gf_visible_waited(&mark);
    assert_int_not_equal(gf_load_relaxed(&reused->visible.made),
                         gf_load_relaxed(&reused->visible.seen));
    gf_store_relaxed(&reused->stream, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_hold_issues_nothing),
        cmocka_unit_test(a_hold_that_issues_stays),
        cmocka_unit_test(a_call_waits_for_the_copy),
        cmocka_unit_test(a_copy_without_progress_is_ended),
        cmocka_unit_test(a_stop_does_not_count),
        cmocka_unit_test(busy_cpus_do_not_count),
        cmocka_unit_test(streams_that_are_ordered),
        cmocka_unit_test(calls_that_never_wait),
        cmocka_unit_test(a_copy_beside_a_call_holds_nothing),
        cmocka_unit_test(a_call_that_does_not_wait_ends_a_hold_that_issues),
        cmocka_unit_test(a_copy_from_a_file_is_awaited_longer),
        cmocka_unit_test(calls_of_others_on_any_stream),
        cmocka_unit_test(members_of_a_batch),
        cmocka_unit_test(members_of_a_batch_that_lost_its_hold),
        cmocka_unit_test(too_many),
        cmocka_unit_test(a_stream_that_is_listed_twice),
        cmocka_unit_test(a_stream_whose_slot_is_reused),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
