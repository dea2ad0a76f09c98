/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine tells this layer once, before any of its functions is called. */
#ifndef GF_TRANSFER_SETUP_H
#define GF_TRANSFER_SETUP_H

#include "base/cpus.h"
#include "config/options.h"
#include "hook/cuda.h"

enum gf_transfer_event {
    gf_transfer_ring, /* a ring has grown or shrunk, or cannot grow */
    gf_transfer_off,  /* something is left to the driver from now on */
};

struct gf_transfer_setup {
    const struct gf_options *options;
    const struct gf_cuda *cuda; /* any member may be NULL */
    double cpu_quota;           /* CPUs' worth; 0 unlimited */
    /*
     * The node whose memory and CPUs are nearest to a device, -1 unknown, and the CPUs to copy on:
     * of that node, and that the program itself may use. May allocate; any thread, no lock held.
     */
    int (*device_node)(CUdevice device, struct gf_cpus *ret_cpus);
    /*
     * Has gf_prepare called soon, on the library's own thread. NULL: nobody would; what has to be
     * prepared is done on the spot.
     */
    void (*ask)(void);
    /* For the event log, one line. Any thread, inside a call of the program's; NULL: nobody listens. */
    void (*tell)(enum gf_transfer_event event, const char *text);
};

extern struct gf_transfer_setup gf_setup;

#endif
