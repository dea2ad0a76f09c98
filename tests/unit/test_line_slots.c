/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/clock.h"
#include "preload/trace/line_slots.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)
#define MS UINT64_C(1000000)

/* What processes may share. */
struct memory {
    struct gf_line_sums sums;
    struct gf_line_slot slots[4];
};
static struct memory memory;
static struct gf_line lines[4];
static struct gf_line_slots slots;

static void use(struct memory *used)
{
    slots = (struct gf_line_slots){.count = 4, .sums = &used->sums, .line = lines};
    for (unsigned i = 0; i < 4; i++)
        lines[i] = (struct gf_line){.slot = &used->slots[i]};
}

static void start(void)
{
    memset(&memory, 0, sizeof(memory));
    use(&memory);
}

static pid_t claimant;

static void *claim_at(void *ns)
{
    claimant = gettid();
    return gf_line_slots_claim(&slots, *(uint64_t *)ns);
}

/* Takes a slot in a thread that holds no other slot. */
static struct gf_line *claim_elsewhere(uint64_t ns)
{
    pthread_t thread;
    void *line;
    assert_int_equal(pthread_create(&thread, NULL, claim_at, &ns), 0);
    pthread_join(thread, &line);
    await_end_of(claimant);
    return line;
}

static void *take_at(void *ns)
{
    uint64_t mark;
    claimant = gettid();
    return gf_line_slots_take(&slots, *(uint64_t *)ns, &mark);
}

/* A write that hangs keeps others from the file, unless its thread has ended. */
static void test_a_write_that_hangs(void **state)
{
    uint64_t mark, taken_ns = 5 * SECOND;
    pthread_t thread;
    (void)state;
    start();
    struct gf_line *line = gf_line_slots_claim(&slots, taken_ns);
    assert_true(gf_line_slots_ready(&slots, line, taken_ns));
    assert_false(gf_line_slots_hang(&slots, taken_ns + 2 * SECOND));
    assert_ptr_equal(gf_line_slots_take(&slots, taken_ns, &mark), line);
    assert_false(gf_line_slots_hang(&slots, taken_ns + SECOND));
    assert_true(gf_line_slots_hang(&slots, taken_ns + 2 * SECOND));
    gf_line_slots_release(line, mark);
    line = gf_line_slots_claim(&slots, taken_ns);
    assert_true(gf_line_slots_ready(&slots, line, taken_ns));
    assert_int_equal(pthread_create(&thread, NULL, take_at, &taken_ns), 0);
    pthread_join(thread, NULL);
    await_end_of(claimant);
    assert_false(gf_line_slots_hang(&slots, taken_ns + 2 * SECOND));
}

/* Processes share slots. One that is killed in a write exists until its parent waits for it. */
static void test_a_killed_writer_keeps_no_other_from_the_file(void **state)
{
    struct memory *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t mark, taken_ns = 5 * SECOND;
    siginfo_t ended;
    (void)state;
    assert_ptr_not_equal(shared, MAP_FAILED);
    use(shared);
    struct gf_line *line = gf_line_slots_claim(&slots, taken_ns);
    assert_true(gf_line_slots_ready(&slots, line, taken_ns));
    const pid_t child = fork();
    if (child == 0) {
        gf_line_slots_take(&slots, taken_ns, &mark);
        raise(SIGKILL);
    }
    assert_int_equal(waitid(P_PID, (id_t)child, &ended, WEXITED | WNOWAIT), 0);
    assert_true(gf_line_slots_writing(&slots));
    assert_false(gf_line_slots_hang(&slots, taken_ns + 2 * SECOND));
    assert_int_equal(waitpid(child, NULL, 0), child);
    munmap(shared, sizeof(*shared));
}

static void test_in_order(void **state)
{
    uint64_t mark;
    (void)state;
    start();
    struct gf_line *first = gf_line_slots_claim(&slots, SECOND);
    assert_true(gf_line_slots_ready(&slots, first, SECOND));
    struct gf_line *second = gf_line_slots_claim(&slots, SECOND);
    assert_ptr_not_equal(first, second);
    assert_true(gf_line_slots_ready(&slots, second, SECOND));
    struct gf_line *third = gf_line_slots_claim(&slots, SECOND);
    gf_line_slots_discard(third);
    assert_ptr_equal(gf_line_slots_take(&slots, SECOND, &mark), first);
    assert_true(gf_line_slots_writing(&slots));
    gf_line_slots_release(first, mark);
    assert_false(gf_line_slots_writing(&slots));
    assert_ptr_equal(gf_line_slots_take(&slots, SECOND, &mark), second);
    gf_line_slots_release(second, mark);
    assert_null(gf_line_slots_take(&slots, SECOND, &mark));
}

/*
 * Another thread gets a held slot only after ten seconds, and only if the holder has ended.
 * Otherwise two threads would fill one slot. The new thread's clock may be behind the holder's.
 */
static void test_holders(void **state)
{
    const uint64_t now = 100 * SECOND;
    (void)state;
    start();
    for (unsigned i = 0; i < 3; i++)
        assert_non_null(claim_elsewhere(now));
    struct gf_line *mine = gf_line_slots_claim(&slots, now);
    assert_non_null(mine);
    assert_null(claim_elsewhere(now));
    assert_null(claim_elsewhere(now - SECOND));
    assert_null(claim_elsewhere(0));
    assert_null(claim_elsewhere(now + 9 * SECOND));
    assert_int_equal(memory.sums.dropped, 0);
    for (unsigned i = 0; i < 3; i++) {
        struct gf_line *theirs = claim_elsewhere(now + 11 * SECOND);
        assert_non_null(theirs);
        assert_ptr_not_equal(theirs, mine);
    }
    assert_null(claim_elsewhere(now + 11 * SECOND));
    assert_int_equal(memory.sums.dropped, 3);
    assert_true(gf_line_slots_ready(&slots, mine, now)); /* the slot is still its holder's */
}

static void test_overdue(void **state)
{
    uint64_t mark;
    (void)state;
    start();
    gf_line_slots_ready(&slots, gf_line_slots_claim(&slots, SECOND), SECOND);
    gf_line_slots_ready(&slots, gf_line_slots_claim(&slots, SECOND), SECOND);
    assert_false(gf_line_slots_overdue(&slots, SECOND + 50 * MS, 100 * MS));
    assert_true(gf_line_slots_overdue(&slots, SECOND + 200 * MS, 100 * MS));
    assert_false(gf_line_slots_overdue(&slots, 0, 100 * MS));
    /* The writer may wait for the disk, without a limit. */
    assert_non_null(gf_line_slots_take(&slots, SECOND, &mark));
    assert_false(gf_line_slots_overdue(&slots, SECOND + 200 * MS, 100 * MS));
    assert_false(gf_line_slots_overdue(&slots, 12 * SECOND, 100 * MS));
}

static void *take_one(void *unused)
{
    uint64_t mark;
    assert_non_null(gf_line_slots_take(&slots, SECOND, &mark));
    return unused;
}

/* A writer that has ended blocks the other lines for ten seconds. */
static void test_overdue_behind_an_ended_writer(void **state)
{
    pthread_t writer;
    (void)state;
    start();
    gf_line_slots_ready(&slots, gf_line_slots_claim(&slots, SECOND), SECOND);
    gf_line_slots_ready(&slots, gf_line_slots_claim(&slots, SECOND), SECOND);
    assert_int_equal(pthread_create(&writer, NULL, take_one, NULL), 0);
    pthread_join(writer, NULL);
    assert_false(gf_line_slots_overdue(&slots, 5 * SECOND, 100 * MS));
    /* The kernel may know the thread for a moment after the join. */
    for (unsigned i = 0; i < 20000 && !gf_line_slots_overdue(&slots, 12 * SECOND, 100 * MS); i++)
        usleep(1000);
    assert_true(gf_line_slots_overdue(&slots, 12 * SECOND, 100 * MS));
}

/* If a line with a count of dropped lines is not written, the next line reports that count. */
static void test_report(void **state)
{
    (void)state;
    start();
    assert_int_equal(gf_line_slots_report(&slots), 0);
    for (unsigned i = 0; i < 5; i++)
        gf_line_slots_count_dropped(&slots);
    assert_int_equal(gf_line_slots_report(&slots), 5);
    assert_int_equal(gf_line_slots_report(&slots), 0);
    gf_line_slots_unreport(&slots, 5);
    gf_line_slots_count_dropped(&slots);
    assert_int_equal(gf_line_slots_report(&slots), 6);
}

static void test_rate(void **state)
{
    unsigned passed = 0;
    (void)state;
    start();
    for (unsigned i = 0; i < 2000; i++)
        passed += gf_line_slots_within_rate(&slots, 100 * SECOND);
    assert_in_range(passed, 500, 502);
    for (unsigned i = 0; i < 2000; i++)
        passed += gf_line_slots_within_rate(&slots, 101 * SECOND);
    assert_in_range(passed, 600, 602);
    assert_false(gf_line_slots_full(&slots));
    memory.sums.written = UINT64_C(65) << 20;
    assert_true(gf_line_slots_full(&slots));
}

/* Another process may have stored any bytes. */
static void test_bytes_of_another_process(void **state)
{
    struct gf_line_message message;
    (void)state;
    start();
    memset(&memory, 0xee, sizeof(memory));
    gf_line_slots_read(&lines[0], &message);
    assert_int_equal(message.length, GF_LINE_SLOTS_LINE);
    assert_int_equal(message.finding.cause, gf_cause_unknown);
    assert_int_equal(message.finding.without_pause, gf_cause_unknown);
    assert_true(strlen(message.finding.text) < sizeof(message.finding.text));
}

#define MAKERS 6
#define EACH 3000

static unsigned written, wrong;
static bool done;

static void *make(void *closure)
{
    const int id = (int)(intptr_t)closure;
    for (unsigned i = 0; i < EACH; i++) {
        struct gf_line *line = gf_line_slots_claim(&slots, gf_now_ns());
        if (!line) {
            gf_line_slots_count_dropped(&slots);
            continue;
        }
        memset(line->slot->text, 'a' + id, 64);
        line->message.pid = id;
        assert_true(gf_line_slots_ready(&slots, line, gf_now_ns()));
    }
    return NULL;
}

static void write_all(void)
{
    struct gf_line *line;
    uint64_t mark;
    while ((line = gf_line_slots_take(&slots, gf_now_ns(), &mark))) {
        for (unsigned i = 0; i < 64; i++)
            if (line->slot->text[i] != 'a' + line->slot->message.pid)
                __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
        gf_line_slots_release(line, mark);
        __atomic_fetch_add(&written, 1, __ATOMIC_RELAXED);
    }
}

static void *write_on(void *unused)
{
    while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE))
        write_all();
    return unused;
}

/* More threads than slots, and two writers: each line is complete, and counted once. */
static void test_many(void **state)
{
    pthread_t maker[MAKERS], writer[2];
    (void)state;
    start();
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&writer[i], NULL, write_on, NULL), 0);
    for (unsigned i = 0; i < MAKERS; i++)
        assert_int_equal(pthread_create(&maker[i], NULL, make, (void *)(intptr_t)i), 0);
    for (unsigned i = 0; i < MAKERS; i++)
        pthread_join(maker[i], NULL);
    __atomic_store_n(&done, true, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(writer[i], NULL);
    write_all();
    assert_int_equal(wrong, 0);
    assert_int_equal(written + gf_line_slots_report(&slots), MAKERS * EACH);
    assert_true(written > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_write_that_hangs),
        cmocka_unit_test(test_a_killed_writer_keeps_no_other_from_the_file),
        cmocka_unit_test(test_in_order),
        cmocka_unit_test(test_holders),
        cmocka_unit_test(test_overdue),
        cmocka_unit_test(test_report),
        cmocka_unit_test(test_rate),
        cmocka_unit_test(test_bytes_of_another_process),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_overdue_behind_an_ended_writer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
