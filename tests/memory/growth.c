/* SPDX-License-Identifier: Apache-2.0 */
/*
 * growth KIND MIB: containers that grow to MIB, and buffers that grow and shrink. Prints the peak.
 *
 *   realloc     a buffer that realloc grows by an eighth, as CPython's bytearray and list
 *   realloc2    realloc doubles it
 *   steps       realloc grows it by 64 KiB, to a quarter of MIB
 *   vector      as std::vector: malloc of the double size, memcpy, free
 *   columns     eight buffers, grown in turns by half
 *   beside      a buffer that grows while a second thread fills 8 MiB in a loop
 *   shrink      blocks of MIB/4 that realloc shrinks to 1 MiB and that stay
 *   cut         the same block shrinks and grows again
 *   stream      as open_memstream
 *   table       calloc of the double size, copy, free (a hash table)
 */
#include "program.h"

#include <pthread.h>

static char *filled_to(char *buffer, size_t from, size_t to)
{
    if (!buffer)
        fail("realloc");
    memset(buffer + from, 1, to - from);
    return buffer;
}

static void by_realloc(size_t size, size_t percent, size_t least)
{
    size_t have = MIB;
    char *buffer = filled_to(malloc(have), 0, have);
    while (have < size) {
        const size_t next = have + have * percent / 100 + least;
        buffer = filled_to(realloc(buffer, next), have, next < size ? next : size);
        have = next;
    }
    free(buffer);
}

static void as_vector(size_t size, int zeroed)
{
    size_t have = 1024;
    char *buffer = filled_to(malloc(have), 0, have);
    while (have < size) {
        char *next = zeroed ? calloc(2, have) : malloc(2 * have);
        memcpy(next, buffer, have);
        free(buffer);
        buffer = filled_to(next, have, 2 * have < size ? 2 * have : size);
        have *= 2;
    }
    free(buffer);
}

static void in_columns(size_t size)
{
    char *column[8] = {0};
    size_t have[8] = {0};
    for (int turn = 0; have[7] < size / 8; turn++) {
        const int i = turn % 8;
        size_t next = have[i] + have[i] / 2 + 65536;
        next = next < size / 8 ? next : size / 8;
        column[i] = filled_to(realloc(column[i], next), have[i], next);
        have[i] = next;
    }
    for (int i = 0; i < 8; i++)
        free(column[i]);
}

static volatile int done;

static void *batches(void *arg)
{
    while (!done)
        free(touched(8 * MIB));
    return arg;
}

static void beside_batches(size_t size)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, batches, NULL))
        fail("thread");
    by_realloc(size, 13, MIB);
    done = 1;
    pthread_join(thread, NULL);
}

static void shrunk_blocks(size_t size)
{
    char *block[20];
    const int count = scaled(20, 10);
    for (int i = 0; i < count; i++) {
        block[i] = realloc(touched(size / 4), MIB);
        if (!block[i] || block[i][0] != 1)
            fail("shrink");
    }
    for (int i = 0; i < count; i++)
        free(block[i]);
}

static void cut_and_grown(size_t size)
{
    char *block = touched(size);
    for (int i = 0; i < scaled(12, 3); i++) {
        block = realloc(block, size / 6);
        block = realloc(block, size - (size_t)i * MIB / 2);
        touch(block, size - (size_t)i * MIB / 2);
    }
    free(block);
}

static void as_stream(size_t size)
{
    char *text = NULL, piece[65536];
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    memset(piece, 'x', sizeof piece);
    for (size_t i = 0; i < size; i += sizeof piece)
        fwrite(piece, sizeof piece, 1, file);
    fclose(file);
    free(text);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    const char *kind = argv[1];
    const size_t size = (size_t)atoi(argv[2]) * MIB;
    start_engine_if_asked();
    if (strcmp(kind, "realloc") == 0)
        by_realloc(size, 12, MIB);
    else if (strcmp(kind, "realloc2") == 0)
        by_realloc(size, 100, 0);
    else if (strcmp(kind, "steps") == 0)
        by_realloc(size / 4, 0, 65536);
    else if (strcmp(kind, "vector") == 0 || strcmp(kind, "table") == 0)
        as_vector(size, kind[0] == 't');
    else if (strcmp(kind, "columns") == 0)
        in_columns(size);
    else if (strcmp(kind, "beside") == 0)
        beside_batches(size);
    else if (strcmp(kind, "shrink") == 0)
        shrunk_blocks(size);
    else if (strcmp(kind, "cut") == 0)
        cut_and_grown(size);
    else if (strcmp(kind, "stream") == 0)
        as_stream(size);
    else
        return 2;
    put_result(0);
    return 0;
}
