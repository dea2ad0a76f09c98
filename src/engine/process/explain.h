/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the lines of GPUFEED_DEBUG=heap and =place: each decision with the facts on which it is
 * based. The functions may be called on any thread.
 */
#ifndef GF_ENGINE_PROCESS_EXPLAIN_H
#define GF_ENGINE_PROCESS_EXPLAIN_H

#include "abi/heap_api.h"
#include "host/facts.h"
#include "engine/report/decision.h"

void gf_explain_heap(const struct gf_heap_ops *heap);
void gf_explain_place(const struct gf_decision *decision, const struct gf_facts *facts);

#endif
