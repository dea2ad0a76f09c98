/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread waits for, and what follows: engine/gputime/waits.c and waits.def. */
#include "unit.h"

#include "engine/gputime/host_causes.h"

#define LIB "/usr/lib/python3.11/"
#define PACKAGES "/venv/lib/python3.12/site-packages/"

static void a_system_call_names_its_object(void **state)
{
    static const struct {
        const char *text;
        enum gf_wait_kind kind;
        int fd;
        bool writes;
    } rows[] = {
        {"running", gf_wait_running, -1, false},
        {"-1 0x7ffd 0x7f", gf_wait_fault, -1, false},
        {"", gf_wait_unread, -1, false},
#ifdef __x86_64__
        {"0 0x1f 0x7f00 0x1000 0x0 0x0 0x0 0x7ffd 0x7f", gf_wait_unknown, 31, false},
        {"1 0x2 0x7f00 0x1000 0x0 0x0 0x0 0x7ffd 0x7f", gf_wait_unknown, 2, true},
        {"327 0xb 0x7f00 0x1 0x0 0x0 0x0 0x7ffd 0x7f", gf_wait_unknown, 11, false}, /* preadv2 */
        {"74 0x5 0x0 0x0", gf_wait_unknown, 5, true},                               /* fsync */
        {"426 0x4 0x1 0x1 0x1", gf_wait_file, -1, false}, /* io_uring_enter */
        {"7 0x7f00 0x1 0xffffffff 0x0", gf_wait_poll, -1, false},
        {"7 0x0 0x0 0x32 0x0", gf_wait_sleep, -1, false},
        {"23 0x5 0x7f00 0x0 0x0 0x7ffd", gf_wait_poll, -1, false},
        {"23 0x0 0x0 0x0 0x0 0x7ffd", gf_wait_sleep, -1, false},
        {"7 0x0 0x0 0xffffffff 0x0", gf_wait_accept, -1, false},
        {"271 0x0 0x0 0x0 0x0 0x8", gf_wait_accept, -1,
         false}, /* ppoll, as pause() of some libcs */
        {"271 0x0 0x0 0x7ffd 0x0 0x8", gf_wait_sleep, -1, false},
        {"23 0x0 0x0 0x0 0x0 0x0", gf_wait_accept, -1, false},
        {"34 0x7ffd 0x7f", gf_wait_accept, -1, false},            /* pause */
        {"128 0x7ffd 0x7ffd 0x0 0x8", gf_wait_accept, -1, false}, /* rt_sigtimedwait */
        {"230 0x1 0x1 0x7ffd 0x0", gf_wait_sleep, -1, false},
        {"232 0x4 0x7f00 0x10 0xffffffff", gf_wait_poll, -1, false}, /* epoll_wait */
        {"61 0x1234 0x0 0x0", gf_wait_child, -1, false},             /* wait4 */
        {"288 0x4 0x0 0x0", gf_wait_accept, -1, false},
        {"82 0x7f00 0x7f01", gf_wait_file_write, -1, false},   /* rename */
        {"263 0x3 0x7f00 0x0", gf_wait_file_write, -1, false}, /* unlinkat */
        {"73 0x4 0x2", gf_wait_lock, -1, false},               /* flock */
        {"72 0x4 0x7 0x7ffd", gf_wait_lock, -1, false},        /* fcntl(F_SETLKW) */
        {"72 0x4 0x3 0x0", gf_wait_unknown, -1, false},        /* fcntl(F_GETFL) */
        {"16 0x9 0xc0 0x7ffd", gf_wait_unknown, -1, false},    /* ioctl */
#endif
    };
    (void)state;
    for (size_t i = 0; i < GF_ARRAY_LEN(rows); i++) {
        struct gf_wait wait;
        gf_wait_by_syscall(rows[i].text, &wait);
        assert_int_equal(wait.kind, rows[i].kind);
        assert_int_equal(wait.fd, rows[i].fd);
        assert_int_equal(wait.writes, rows[i].writes);
        assert_int_equal(wait.futex, 0);
    }
}

static void a_semaphore_is_a_lock(void **state)
{
    struct gf_wait wait = {.is_private = true};
    (void)state;
#ifdef __x86_64__
    gf_wait_by_syscall("202 0x7f00 0x189 0x0", &wait);
    assert_int_equal(wait.kind, gf_wait_futex);
    assert_int_equal(wait.futex, 0x7f00);
    assert_true(wait.is_private);
#endif
    assert_int_equal(gf_wait_by_futex(&wait, (uint32_t[]){0, 1, 0, 0}), gf_wait_lock);
    assert_int_equal(gf_wait_by_futex(&wait, (uint32_t[]){2, 1, 0, 0}), gf_wait_futex); /* mutex */
    assert_int_equal(gf_wait_by_futex(&wait, (uint32_t[]){0, 0, 0, 0}), gf_wait_futex);
    wait.is_private = false;
    assert_int_equal(gf_wait_by_futex(&wait, (uint32_t[]){0, 2, 128, 0}), gf_wait_lock);
}

static void a_descriptor_is_told_by_its_link_and_its_end(void **state)
{
    (void)state;
    assert_int_equal(gf_wait_by_link("socket:[17]", true), gf_wait_socket);
    assert_int_equal(gf_wait_by_link("pipe:[17]", false), gf_wait_pipe_read);
    assert_int_equal(gf_wait_by_link("pipe:[17]", true), gf_wait_pipe_write);
    assert_int_equal(gf_wait_by_link("anon_inode:[eventfd]", false), gf_wait_event);
    assert_int_equal(gf_wait_by_link("/dev/pts/3", false), gf_wait_terminal_read);
    assert_int_equal(gf_wait_by_link("/data/train.bin", false), gf_wait_file);
    assert_int_equal(gf_wait_by_link("/data/model.pt", true), gf_wait_file_write);
    assert_int_equal(gf_wait_by_link("/dev/shm/x", false), gf_wait_file);
    assert_int_equal(gf_wait_by_link("/dev/nvidia0", false), gf_wait_unknown);
}

static void only_files_of_packages_are_modules(void **state)
{
    (void)state;
    assert_string_equal(gf_wait_module(LIB "queue.py"), "queue.py");
    assert_string_equal(gf_wait_module(PACKAGES "torch/serialization.py"),
                        "torch/serialization.py");
    assert_string_equal(gf_wait_module("/usr/lib/python3/dist-packages/urllib3/util.py"),
                        "urllib3/util.py");
    assert_null(gf_wait_module("/home/me/queue.py"));
    assert_null(gf_wait_module("/home/me/torch/serialization.py"));
    assert_string_equal(gf_wait_module("<frozen runpy>"), "runpy>");
}

static void frames_decide_between_causes(void **state)
{
    static const struct {
        enum gf_wait_kind kind;
        enum gf_host_cause cause;
        struct gf_pystack_frame frame[2]; /* innermost first */
    } rows[] = {
        {gf_wait_running, gf_host_computing, {{"", "", .line = 0}}},
        {gf_wait_sleep, gf_host_sleep, {{"", "", .line = 0}}},
        {gf_wait_lock, gf_host_lock, {{"", "", .line = 0}}},
        {gf_wait_futex, gf_host_waiting, {{"", "", .line = 0}}},
        {gf_wait_poll, gf_host_waiting, {{"", "", .line = 0}}},
        {gf_wait_socket, gf_host_network, {{"", "", .line = 0}}},
        {gf_wait_pipe_write,
         gf_host_pipe_full,
         {{LIB "logging/__init__.py", "StreamHandler.emit", .line = 1}}},
        {gf_wait_lock,
         gf_host_queue,
         {{LIB "threading.py", "Condition.wait", .line = 1},
          {LIB "queue.py", "Queue.get", .line = 1}}},
        {gf_wait_lock,
         gf_host_queue_full,
         {{LIB "threading.py", "Condition.wait", .line = 1},
          {LIB "queue.py", "Queue.put", .line = 1}}},
        {gf_wait_lock,
         gf_host_data,
         {{LIB "queue.py", "Queue.get", .line = 1},
          {PACKAGES "torch/utils/data/dataloader.py", "_get_data", .line = 1}}},
        {gf_wait_lock, gf_host_thread, {{LIB "threading.py", "Event.wait", .line = 1}}},
        {gf_wait_lock, gf_host_thread, {{LIB "threading.py", "Semaphore.acquire", .line = 1}}},
        {gf_wait_lock, gf_host_lock, {{LIB "threading.py", "Condition.__enter__", .line = 1}}},
        {gf_wait_pipe_read,
         gf_host_process,
         {{LIB "multiprocessing/connection.py", "Connection._recv", .line = 1},
          {LIB "multiprocessing/queues.py", "SimpleQueue.get", .line = 1}}},
        {gf_wait_lock,
         gf_host_thread,
         {{LIB "threading.py", "Condition.wait", .line = 1},
          {LIB "concurrent/futures/_base.py", "wait", .line = 1}}},
        {gf_wait_queue, gf_host_queue, {{"", "", .line = 0}}},
        {gf_wait_queue,
         gf_host_thread,
         {{LIB "concurrent/futures/thread.py", "_worker", .line = 1}}},
        {gf_wait_poll,
         gf_host_process,
         {{LIB "selectors.py", "select", .line = 1},
          {LIB "multiprocessing/connection.py", "wait", .line = 1}}},
        {gf_wait_poll,
         gf_host_child,
         {{LIB "selectors.py", "select", .line = 1},
          {LIB "subprocess.py", "communicate", .line = 1}}},
        {gf_wait_poll,
         gf_host_input,
         {{LIB "selectors.py", "select", .line = 1},
          {LIB "asyncio/base_events.py", "_run_once", .line = 1}}},
        {gf_wait_socket,
         gf_host_download,
         {{LIB "socket.py", "readinto", .line = 1}, {LIB "http/client.py", "begin", .line = 1}}},
        {gf_wait_running,
         gf_host_compile,
         {{PACKAGES "sympy/core/basic.py", "subs", .line = 1},
          {PACKAGES "torch/_dynamo/convert_frame.py", "_compile", .line = 1}}},
        /* torch.optim imports torch._dynamo */
        {gf_wait_running,
         gf_host_import,
         {{PACKAGES "torch/_dynamo/convert_frame.py", "<module>", .line = 1},
          {"<frozen importlib._bootstrap_external>", "exec_module", .line = 1}}},
        {gf_wait_file,
         gf_host_import,
         {{"<frozen importlib._bootstrap>", "_find_and_load", .line = 1}}},
        {gf_wait_running, gf_host_computing, {{"<frozen runpy>", "_run_code", .line = 1}}},
        {gf_wait_futex,
         gf_host_thread,
         {{PACKAGES "torch/autograd/graph.py", "_engine_run_backward", .line = 1}}},
        {gf_wait_running,
         gf_host_computing,
         {{PACKAGES "torch/_dynamo/eval_frame.py", "_fn", .line = 1}}},
        {gf_wait_running,
         gf_host_optimizer,
         {{PACKAGES "torch/optim/adamw.py", "AdamW.step", .line = 1}}},
        {gf_wait_running,
         gf_host_computing,
         {{PACKAGES "torch/optim/optimizer.py", "Optimizer.zero_grad", .line = 1}}},
        /* after the program's last line */
        {gf_wait_sleep,
         gf_host_child,
         {{LIB "subprocess.py", "Popen._wait", .line = 2047},
          {PACKAGES "torch/_inductor/async_compile.py", "shutdown_compile_workers", .line = 1}}},
        {gf_wait_file_write,
         gf_host_checkpoint,
         {{PACKAGES "torch/serialization.py", "_save", .line = 1},
          {PACKAGES "torch/serialization.py", "save", .line = 1}}},
        {gf_wait_file, gf_host_file, {{PACKAGES "torch/serialization.py", "load", .line = 1}}},
        {gf_wait_futex,
         gf_host_ranks,
         {{PACKAGES "torch/distributed/distributed_c10d.py", "barrier", .line = 1}}},
        {gf_wait_running,
         gf_host_computing,
         {{PACKAGES "torch/distributed/distributed_c10d.py", "barrier", .line = 1}}},
    };
    (void)state;
    for (size_t i = 0; i < GF_ARRAY_LEN(rows); i++) {
        const struct gf_python_place place = {.frames = rows[i].frame, .count = 2, .all = 2};
        assert_int_equal(gf_wait_cause(rows[i].kind, &place), rows[i].cause);
    }
    assert_int_equal(gf_wait_cause(gf_wait_unread, &(struct gf_python_place){0}), gf_host_other);
}

/* The frames of a Dataset's method in the program, which the program's loop calls. */
static void a_loader_calls_the_program(void **state)
{
    static const struct gf_pystack_frame frames[] = {
        {"/usr/lib64/python3.9/zlib.py", "decompress", .line = 3},
        {"/home/me/train.py", "Images.__getitem__", .line = 28},
        {PACKAGES "torch/utils/data/_utils/fetch.py", "_MapDatasetFetcher.fetch", .line = 54},
        {"/home/me/train.py", "main", .line = 60}};
    const struct gf_python_place place = {.frames = frames, .count = 1, .all = 4},
                                 apart = {.frames = frames, .count = 1, .all = 2};
    (void)state;
    assert_int_equal(gf_pystack_own_frame(frames, 4, true), 1);
    assert_int_equal(gf_wait_cause(gf_wait_running, &place), gf_host_loader);
    assert_int_equal(gf_wait_cause(gf_wait_running, &apart), gf_host_computing);
    assert_int_equal(gf_wait_cause(gf_wait_sleep, &place), gf_host_sleep);
}

static void a_model_prepares_work_for_the_gpu(void **state)
{
    static const struct gf_pystack_frame frames[] = {
        {PACKAGES "torch/nn/functional.py", "linear", .line = 3},
        {"/home/me/train.py", "Model.forward", .line = 28},
        {PACKAGES "torch/nn/modules/module.py", "Module._call_impl", .line = 54},
        {PACKAGES "torch/utils/_contextlib.py", "decorate_context", .line = 116}};
    (void)state;
    assert_true(
        gf_wait_prepares_work(&(struct gf_python_place){.frames = frames, .count = 1, .all = 2}));
    assert_true(gf_wait_prepares_work(
        &(struct gf_python_place){.frames = frames + 1, .count = 0, .all = 2}));
    assert_false(gf_wait_prepares_work(
        &(struct gf_python_place){.frames = frames + 3, .count = 0, .all = 1}));
}

#define GENERATED "/tmp/cache/sd/csd3g6hyiqug7me34wys723l4ctk3m5mvgmdhhgucd7xdqj53l4m.py"

static void the_line_is_one_that_a_user_can_change(void **state)
{
    static const struct {
        size_t own;
        bool whole;
        struct gf_pystack_frame frame[4]; /* innermost first, up to the first one without a file */
    } rows[] = {
        {2,
         true,
         {{LIB "copy.py", "", .line = 1},
          {GENERATED, "Runner.call", .line = 276},
          {"/me/k03.py", "", .line = 50}}},
        /* a dataclass, and `python -c` */
        {1,
         true,
         {{"<string>", "__init__", .line = 3},
          {"/me/a.py", "", .line = 1},
          {"<string>", "<module>", .line = 1}}},
        {1,
         true,
         {{LIB "copy.py", "", .line = 1},
          {"<string>", "main", .line = 4},
          {"<string>", "<module>", .line = 9}}},
        {1, false, {{LIB "copy.py", "", .line = 1}, {"<stdin>", "main", .line = 4}}},
        /* without a frame of the program: at its end, in a module that was installed, in a thread */
        {1,
         true,
         {{LIB "subprocess.py", "_wait", .line = 1},
          {PACKAGES "torch/a.py", "shutdown", .line = 1}}},
        {1,
         true,
         {{PACKAGES "b.py", "", .line = 1},
          {PACKAGES "a.py", "", .line = 1},
          {"<frozen runpy>", "", .line = 1}}},
        {1,
         true,
         {{LIB "queue.py", "get", .line = 1}, {LIB "threading.py", "_bootstrap", .line = 1}}},
        {0,
         false,
         {{"<frozen importlib._bootstrap>", "_load", .line = 1}, {PACKAGES "a.py", "", .line = 1}}},
    };
    (void)state;
    for (size_t i = 0; i < GF_ARRAY_LEN(rows); i++) {
        size_t count = 0;
        while (count < 4 && *rows[i].frame[count].file)
            count++;
        assert_int_equal(gf_pystack_own_frame(rows[i].frame, count, rows[i].whole), rows[i].own);
    }
}

static void some_causes_are_known_by_frames_alone(void **state)
{
    (void)state;
    assert_true(gf_wait_is_by_frames(gf_host_compile));
    assert_true(gf_wait_is_by_frames(gf_host_import));
    assert_false(gf_wait_is_by_frames(gf_host_input)); /* of a debugger, or of a call */
    assert_false(gf_wait_is_by_frames(gf_host_computing));
    assert_false(gf_wait_is_by_frames(gf_host_gil));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_system_call_names_its_object),
        cmocka_unit_test(a_semaphore_is_a_lock),
        cmocka_unit_test(a_descriptor_is_told_by_its_link_and_its_end),
        cmocka_unit_test(only_files_of_packages_are_modules),
        cmocka_unit_test(frames_decide_between_causes),
        cmocka_unit_test(a_loader_calls_the_program),
        cmocka_unit_test(a_model_prepares_work_for_the_gpu),
        cmocka_unit_test(the_line_is_one_that_a_user_can_change),
        cmocka_unit_test(some_causes_are_known_by_frames_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
