/* SPDX-License-Identifier: Apache-2.0 */
/* What `gpufeed doctor` looks at: settings of the host and limits of the container that keep a GPU waiting. */
#ifndef GF_CLI_DOCTOR_H
#define GF_CLI_DOCTOR_H

#include "cli/topo.h"

enum gf_health {
    gf_health_mend,    /* somebody should do something */
    gf_health_unknown, /* nothing told */
    gf_health_fine,
};

struct gf_advice {
    const char *check; /* its name in the list of doctor.c */
    enum gf_health health;
    char what[256]; /* what is so, in a line of plain ASCII, as read */
    char read[512]; /* the file or the call, and what it said; "" where `what` says it */
    char mend[384]; /* a command, or whom to ask for what */
    const char *why; /* it matters; NULL where it is fine */
};

/* Three checks tell of each GPU, the others once. */
#define GF_ADVICES_MAX (3 * GF_VISIBLE_MAX + 16)

struct gf_advices {
    struct gf_advice list[GF_ADVICES_MAX];
    size_t count;
};

struct gf_patient {
    const char *root; /* "" this machine; a recorded one tells of itself what its files do */
    const struct gf_topo *topo;
};

/* Files of it can be read, and nothing be asked by trying. */
static inline bool gf_patient_is_recorded(const struct gf_patient *patient)
{
    return *patient->root;
}

typedef void gf_check(const struct gf_patient *patient, struct gf_advices *ret);

/* Runs all checks, in their order. */
void gf_doctor_see(const struct gf_patient *patient, struct gf_advices *ret);

/* Copies what the checks of the host read to below a folder, for a patient that is recorded. 0 or -errno. */
int gf_doctor_record(const char *folder);
/* Its part in doctor_clock.c. */
int gf_doctor_record_clocks(const char *folder);

/* For the checks. Adds an advice, with `what`; the list is never full. */
struct gf_advice *gf_advise(struct gf_advices *advices, enum gf_health health, const char *format, ...)
    GF_PRINTF(3, 4);
void gf_advise_read(struct gf_advice *advice, const char *format, ...) GF_PRINTF(2, 3);
void gf_advise_mend(struct gf_advice *advice, const char *why, const char *format, ...) GF_PRINTF(3, 4);

/* The host: doctor_host.c. */
gf_check gf_check_kernel, gf_check_shared_huge, gf_check_huge, gf_check_reclaim, gf_check_balancing, gf_check_swap;
/* The clocks of its CPUs: doctor_clock.c. */
gf_check gf_check_governor;
/* GPUs and where they are: doctor_gpu.c. */
gf_check gf_check_gpus, gf_check_nodes, gf_check_cpus, gf_check_links;
/* What a container or a launcher has left of it: doctor_limits.c. */
gf_check gf_check_affinity, gf_check_policy, gf_check_quota, gf_check_memory, gf_check_shm, gf_check_memlock,
    gf_check_space, gf_check_threads;

#endif
