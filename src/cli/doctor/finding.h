/* SPDX-License-Identifier: Apache-2.0 */
/* The input of a check of `gpufeed doctor`, and the findings that it reports. */
#ifndef GF_CLI_DOCTOR_FINDING_H
#define GF_CLI_DOCTOR_FINDING_H

#include "cli/topo/topo.h"

struct gf_check_input {
    const char *root; /* "": this machine; else the folder of a recorded one */
    const struct gf_topo *topo;
    char *const *envp; /* of this process, also for a recorded machine */
    bool inference;    /* GPUFEED_PROFILE: latency matters more than throughput */
    const char *data;  /* a folder with the program's data, an absolute path; NULL if not given */
};

/*
 * Whether the machine is a recorded one. A recording has only files: a system call would examine
 * this machine instead.
 */
static inline bool gf_check_is_recorded(const struct gf_check_input *input)
{
    return *input->root;
}

enum gf_where { gf_where_docker, gf_where_kubernetes, gf_where_slurm, gf_where_count };

#define GF_FINDING_GPUS_LISTED 8 /* a summary names at most this many GPUs */

enum gf_status {
    gf_status_problem, /* has a fix; the exit code is 1. There are no warnings */
    gf_status_unknown, /* no file and no call gives the answer */
    gf_status_ok,
};

struct gf_finding {
    const char *check; /* its name in checks.def; set by the caller of the check */
    enum gf_status status;
    char summary[256];  /* printable ASCII on one line */
    char evidence[512]; /* the file or call, and its content or result; "" if summary has it */
    char fix[384];      /* a command or setting; "" unless this is a problem */
    char script[256];   /* shell lines for root on the host, for --fix; "" if there are none */
    const char *why;    /* why it matters; NULL in a problem: the text of checks.def */
    const char *page;   /* below docs/; explains why. Set by the caller of the check */
    /* How to fix it in Docker, Kubernetes and Slurm; set by the caller of the check. */
    const char *where[gf_where_count];
    /* The GPUs with this finding; if there are any, the summary begins with their list. */
    char gpus[GF_FINDING_GPUS_LISTED][20];
    size_t gpu_count;
};

enum {
    GF_CHECK_COUNT = 0
#define GF_CHECK(token, name, reads, why, page, ...) +1
#include "cli/doctor/checks.def"
};

/* A check reports once, or once for each GPU. */
#define GF_FINDINGS_MAX (GF_CHECK_COUNT * GF_VISIBLE_GPUS_MAX)

struct gf_findings {
    struct gf_finding list[GF_FINDINGS_MAX];
    size_t count;
};

/*
 * Adds a finding with its summary. Never NULL. If the list is full, the finding is dropped, and a
 * line on standard error says so.
 */
struct gf_finding *gf_finding_add(struct gf_findings *findings, enum gf_status status,
                                  const char *format, ...) GF_PRINTF(3, 4);
void gf_finding_evidence(struct gf_finding *finding, const char *format, ...) GF_PRINTF(2, 3);
void gf_finding_fix(struct gf_finding *finding, const char *format, ...) GF_PRINTF(2, 3);
/* The fix is a shell command for root on the host: sets the fix and a line of the script. */
void gf_finding_command(struct gf_finding *finding, const char *format, ...) GF_PRINTF(2, 3);

/*
 * Adds a finding about one GPU. The summary follows the list of GPUs: "GPU 0000:1b:00.0: " and the
 * text. gf_findings_group joins the findings of several GPUs.
 */
struct gf_finding *gf_finding_add_gpu(struct gf_findings *findings, enum gf_status status,
                                      const char *bdf, const char *format, ...) GF_PRINTF(4, 5);

/*
 * Joins findings from index `from` on that differ only in their GPU, for example those of one node,
 * and writes the list of GPUs into each summary. The evidence is that of the first GPU.
 */
void gf_findings_group(struct gf_findings *findings, size_t from);

/* Reports that the file, a path below the root, cannot be read. */
void gf_finding_unreadable(struct gf_findings *findings, const char *subject, const char *file);

#endif
