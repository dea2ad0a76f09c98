/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time of `gpufeed report` grows no faster than the size of its input. An input is a form of the
 * output (one byte), a beginning, a part and an end, separated by \x01. The part is repeated, with a
 * number in place of each '%'. CPU time is measured for two numbers of repetitions.
 */
#include "fuzz.h"

#include "tools/common/cli.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__ /* it only looks for wrong accesses, which need fewer repetitions */
#define FEW 1000
#else
#define FEW 4000
#endif
#define TIMES 4      /* as many repetitions the second time */
#define RATIO 8      /* of the two times; a time that grows with the square has TIMES * TIMES */
#define NOISE_S 0.15 /* shorter times say nothing */
#define TEXT_MOST ((size_t)8 << 20)

struct text {
    const char *at;
    size_t size;
};

static struct text next_part(struct text *rest)
{
    const char *end = memchr(rest->at, 1, rest->size);
    const struct text part = {rest->at, end ? (size_t)(end - rest->at) : rest->size};

    rest->at += part.size + (end != NULL);
    rest->size -= part.size + (end != NULL);
    return part;
}

static void put(FILE *out, struct text part, unsigned number)
{
    for (size_t i = 0; i < part.size; i++)
        if (part.at[i] == '%')
            fprintf(out, "%u", number);
        else
            fputc(part.at[i], out);
}

static double read_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Returns the CPU time of the command. */
static double time_report(char *form, const struct text parts[3], unsigned count)
{
    const int fd = memfd_create("log", MFD_CLOEXEC), to = memfd_create("text", MFD_CLOEXEC);
    const int out = dup(STDOUT_FILENO), error = dup(STDERR_FILENO);
    FILE *file = fdopen(dup(fd), "w");
    char path[64], verb[] = "report", *argv[] = {verb, form, path, NULL};

    CHECK(fd >= 0 && to >= 0 && out >= 0 && error >= 0 && file);
    put(file, parts[0], 0);
    for (unsigned i = 1; i <= count; i++)
        put(file, parts[1], i);
    put(file, parts[2], 0);
    CHECK(fclose(file) == 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    fflush(stdout);
    CHECK(dup2(to, STDOUT_FILENO) >= 0 && dup2(to, STDERR_FILENO) >= 0);
    const double start = read_clock();
    gf_cmd_report(3, argv);
    fflush(stdout);
    const double passed = read_clock() - start;
    CHECK(dup2(out, STDOUT_FILENO) >= 0 && dup2(error, STDERR_FILENO) >= 0);
    close(fd);
    close(to);
    close(out);
    close(error);
    return passed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char forms[][24] = {"--top=9",      "--html=-",  "--prometheus=-", "--events",
                               "--perfetto=-", "--folded",  "--json",         "--by=thread",
                               "--by=site",    "--by=rank", "--by=step",      "--since=1s"};
    struct text rest = {(const char *)data + 1, size - 1}, parts[3];

    if (size < 2)
        return 0;
    char *form = forms[(unsigned)(data[0] - 'a') % (sizeof(forms) / sizeof(forms[0]))];
    for (int i = 0; i < 3; i++)
        parts[i] = next_part(&rest);
    if ((parts[1].size + 8) * FEW * TIMES > TEXT_MOST)
        return 0;
    const double few = time_report(form, parts, FEW);
    double many = time_report(form, parts, FEW * TIMES);
    /* A page fault or another process on the same cache may double one time, but not both. */
    if (many > RATIO * few + NOISE_S)
        many = time_report(form, parts, FEW * TIMES);
    if (many > RATIO * few + NOISE_S)
        fprintf(stderr, "%s: %.3f s for %d repetitions, %.3f s for %d\n", form, few, FEW, many,
                FEW * TIMES);
    CHECK(many <= RATIO * few + NOISE_S);
    return 0;
}
