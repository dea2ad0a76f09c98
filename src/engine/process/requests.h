/* SPDX-License-Identifier: Apache-2.0 */
/* Requests for a decision or a change of masks, served by one thread at a time. */
#ifndef GF_ENGINE_PROCESS_REQUESTS_H
#define GF_ENGINE_PROCESS_REQUESTS_H

/* Bits of a request. */
enum {
    gf_request_decide = 1, /* the choice of devices may have changed */
    /* The time for a provisional choice is over: decide with the present evidence. */
    gf_request_settle = 2,
    gf_request_rescan = 4, /* bind threads that restored the start mask */
    gf_request_socket = 8, /* the starvation guard's first step */
    gf_request_start = 16, /* the guard's second step */
};

/*
 * Serves the request, or leaves it to the thread that is already serving, so no hook waits. Any
 * thread. Keeps errno.
 */
void gf_requests_serve(unsigned bits);

#endif
