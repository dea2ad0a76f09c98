/* SPDX-License-Identifier: Apache-2.0 */
/* Serves requests for a decision. */
#pragma once

#include "abi/heap_api.h"

/* Prints the lines of GPUFEED_DEBUG=heap. May be called on any thread. */
void gf_explain_heap(const struct gf_heap_ops *heap);

/* The bits of requests. */
enum {
    gf_request_decide = 1, /* the choice of devices may have changed */
    /*
     * The time limit of a provisional choice is over: settle it now, with GF_CHOICE_LITTLE as the
     * limit.
     */
    gf_request_settle = 2,
    gf_request_rescan = 4, /* bind the threads that have restored the start mask */
    gf_request_socket = 8, /* the starvation guard's first step: widen the mask to the socket */
    gf_request_start = 16, /* the guard's second step: restore the start mask */
};

/*
 * Serves the requests. If another thread is already serving, leaves the requests to that thread, so
 * no hook waits. May be called on any thread. Keeps errno.
 */
void gf_requests_serve(unsigned bits);
