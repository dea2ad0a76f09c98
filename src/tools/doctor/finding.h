/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "config/options.h"
#include "tools/common/text.h"
#include "tools/topo/topo.h"

/* The input of a check of `gpufeed doctor`, and the findings that it reports. */
struct gf_check_input {
    const char *root; /* "": this machine; otherwise the folder of a recorded machine */
    const struct gf_topo *topo;
    const struct gf_options *options; /* those of this process's environment */
    const char *data; /* absolute path of a folder with the program's data; NULL if not given */
};

/*
 * Whether the checked machine is a recorded one. If so, a check may only read files of the
 * recording, because other system calls would examine the machine on which this process runs.
 */
static inline bool gf_check_is_recorded(const struct gf_check_input *input)
{
    return *input->root;
}

/*
 * Whether prctl(PR_SET_THP_DISABLE) is in effect for the process. It overrides all settings of huge
 * pages, and children inherit it, also through execve.
 */
bool gf_check_thp_is_off(const struct gf_check_input *input);

/* Whether latency matters more than throughput. */
static inline bool gf_check_is_inference(const struct gf_check_input *input)
{
    return input->options->profile == gf_profile_inference;
}

enum gf_where { gf_where_docker, gf_where_kubernetes, gf_where_slurm, gf_where_count };

enum gf_status {
    gf_status_problem, /* the finding has a fix, and the exit code is 1 */
    gf_status_unknown, /* neither a file nor a call gives the answer */
    gf_status_ok,
};

struct gf_finding {
    const char *check; /* name of the check; set by gf_doctor_run */
    enum gf_status status;
    char summary[256]; /* printable ASCII on one line */
    /* The file or call, and its content or result; "" if the summary contains both. */
    char evidence[512];
    char fix
        [768]; /* printable ASCII: a command or setting that fixes a problem; "" for other findings */
    char script[256]; /* shell lines for root on the host, printed by --fix; may be "" */
    const char *why;  /* why a problem matters; if NULL, gf_doctor_run sets WHY of checks.def */
    const char *page; /* the page in docs/ that explains why; set by gf_doctor_run */
    /* How to fix the problem in Docker, Kubernetes and Slurm; set by gf_doctor_run. */
    const char *where[gf_where_count];
    /* The GPUs with this finding; gf_findings_group puts their list before the summary. */
    char gpus[8][20]; /* no more are named */
    size_t gpu_count;
};

enum {
    GF_CHECK_COUNT = 0
#define GF_CHECK(token, name, reads, why, page, ...) +1
#include "tools/doctor/checks.def"
};

struct gf_findings {
    /* There is space for one finding of each check for each GPU. */
    struct gf_finding list[GF_CHECK_COUNT * GF_VISIBLE_GPUS_MAX], *last;
    size_t count;
};

/*
 * Adds a finding with its summary. If the list is full, drops the finding, and prints an error. The
 * other functions and macros add to the finding that was added last.
 */
void gf_finding_add(struct gf_findings *findings, enum gf_status status, const char *summary);
#define gf_ok(findings, ...) gf_finding_add(findings, gf_status_ok, gf_text(__VA_ARGS__))
/* Adds it only if the condition holds. The value is whether it does, and so whether the check is done. */
#define gf_ok_if(findings, condition, ...) ((condition) && (gf_ok(findings, __VA_ARGS__), true))
#define gf_problem(findings, ...) gf_finding_add(findings, gf_status_problem, gf_text(__VA_ARGS__))
#define gf_unknown(findings, ...) gf_finding_add(findings, gf_status_unknown, gf_text(__VA_ARGS__))

/*
 * Add a finding about one GPU, with a summary that does not name the GPU. gf_findings_group joins
 * equal findings, and names their GPUs.
 */
#define gf_gpu_ok(findings, bdf, ...)                                                              \
    (gf_ok(findings, __VA_ARGS__), gf_finding_of_gpu(findings, bdf))
#define gf_gpu_problem(findings, bdf, ...)                                                         \
    (gf_problem(findings, __VA_ARGS__), gf_finding_of_gpu(findings, bdf))
void gf_finding_of_gpu(struct gf_findings *findings, const char *bdf);

#define gf_evidence(findings, ...) GF_FINDING_SET(findings, evidence, __VA_ARGS__)
#define gf_fix(findings, ...) GF_FINDING_SET(findings, fix, __VA_ARGS__)
/*
 * Sets the fix and the script to a shell command for root on the host. A text of a file, or the name
 * of one, is part of a command only if it matches its own grammar, such as that of a PCI address.
 */
#define gf_command(findings, ...)                                                                  \
    (GF_FINDING_SET(findings, script, __VA_ARGS__),                                                \
     gf_fix(findings, "%s    (root, on the host)", (findings)->last->script))
#define GF_FINDING_SET(findings, member, ...)                                                      \
    gf_finding_set((findings)->last->member, sizeof((findings)->last->member), gf_text(__VA_ARGS__))
/*
 * Copies a text, and replaces each byte that is not printable ASCII. The text may contain bytes of
 * a file, but JSON allows only UTF-8, and a terminal interprets control characters.
 */
void gf_finding_set(char *ret, size_t size, const char *text);

/*
 * Joins findings that differ only in their GPU and evidence, and puts the list of GPUs before each
 * summary. Examines the findings from index `from` on. A joined finding has the evidence of its
 * first GPU.
 */
void gf_findings_group(struct gf_findings *findings, size_t from);

/* Adds the finding that a file below the root cannot be read. */
#define gf_finding_unreadable(findings, subject, file)                                             \
    gf_unknown(findings, "%s: /%s cannot be read", subject, file)

/*
 * Reads the first line of a file of the checked machine; the other arguments format its path below the root.
 * Returns false if the file is missing or the line is empty.
 */
#define gf_host_line(input, ret, size, ...)                                                        \
    gf_host_read_line(input, ret, size, gf_text(__VA_ARGS__))
bool gf_host_read_line(const struct gf_check_input *input, char *ret, size_t size,
                       const char *path);
/* Reads the first line of a file as a number. Returns false if it is not a number of at least 0. */
#define gf_host_number(input, ret, ...) gf_host_read_number(input, ret, gf_text(__VA_ARGS__))
bool gf_host_read_number(const struct gf_check_input *input, long *ret, const char *path);

/* Whether a folder below the root has an entry whose name begins so, and not with a dot. */
bool gf_host_has(const struct gf_check_input *input, const char *name, const char *begin);

#define GF_MEMINFO "proc/meminfo"
/* Reads numbers of /proc/meminfo, of which most are in KiB. Returns false if it lacks one of them. */
bool gf_host_meminfo(const struct gf_check_input *input, const char *const *keys, uint64_t *ret,
                     size_t count);

/*
 * Returns the CPUs that the process may use, or all online CPUs if a recording lacks the process's
 * mask.
 */
const struct gf_cpus *gf_host_cpus(const struct gf_check_input *input);

/* The functions of checks.def. Each adds its findings to ret and does not change the machine. */

typedef void gf_check(const struct gf_check_input *input, struct gf_findings *ret);

#define GF_CHECK(token, name, reads, why, page, ...) gf_check gf_check_##token;
#include "tools/doctor/checks.def"
