/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of many sizes between ranks, from blocks that are freed and allocated again. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int rank, ranks;

static unsigned char byte_of(int from, int round, size_t at)
{
    return (unsigned char)(from * 31 + round * 7 + (int)(at % 251));
}

static void fail(const char *what, int round)
{
    printf("mpi: rank %d: wrong data in %s, round %d\n", rank, what, round);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static void check(const unsigned char *block, size_t size, int from, int round, const char *what)
{
    for (size_t i = 0; i < size; i++)
        if (block[i] != byte_of(from, round, i))
            fail(what, round);
}

static unsigned char *filled(size_t size, int round)
{
    unsigned char *block = malloc(size);

    for (size_t i = 0; i < size; i++)
        block[i] = byte_of(rank, round, i);
    return block;
}

static void ring(void)
{
    const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;

    for (int round = 0; round < 120; round++) {
        const size_t size = (size_t)1 << round % 23;
        unsigned char *out = filled(size, round), *in = malloc(size);
        MPI_Sendrecv(out, (int)size, MPI_BYTE, next, round, in, (int)size, MPI_BYTE, previous,
                     round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check(in, size, previous, round, "the ring");
        free(out);
        free(in);
    }
}

static void window(void)
{
    enum { BYTES = 1 << 20 };
    unsigned char *mine, *theirs;
    MPI_Aint size;
    MPI_Win win;
    int unit;

    MPI_Win_allocate_shared(BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win);
    for (int round = 0; round < 8; round++) {
        MPI_Win_fence(0, win);
        for (size_t i = 0; i < BYTES; i++)
            mine[i] = byte_of(rank, round, i);
        MPI_Win_fence(0, win);
        MPI_Win_shared_query(win, (rank + 1) % ranks, &size, &unit, &theirs);
        check(theirs, BYTES, (rank + 1) % ranks, round, "the window");
    }
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

static void gather(void)
{
    for (int round = 0; round < 20; round++) {
        const size_t size = (size_t)1000 << round % 10;
        unsigned char *out = filled(size, round), *in = malloc(size * (size_t)ranks);
        MPI_Request request;

        MPI_Iallgather(out, (int)size, MPI_BYTE, in, (int)size, MPI_BYTE, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int from = 0; from < ranks; from++)
            check(in + (size_t)from * size, size, from, round, "the gathering");
        free(out);
        free(in);
    }
}

/* Ranks fork between messages, as programs with DataLoader workers do. */
static void spawned(void)
{
    for (int round = 0; round < 6; round++) {
        int status = -1;
        const pid_t child = fork();
        if (child == 0)
            _exit(malloc(1 << 20) ? 5 : 6);
        ring();
        if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 5)
            fail("a child", round);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"ring", ring}, {"window", window}, {"gather", gather}, {"spawned", spawned}};

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (argc > 1 && strcmp(cases[i].name, argv[1]) == 0)
            cases[i].run();
    printf("mpi: rank %d of %d done\n", rank, ranks);
    MPI_Finalize();
    return 0;
}
