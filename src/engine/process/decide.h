/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_ENGINE_PROCESS_DECIDE_H
#define GF_ENGINE_PROCESS_DECIDE_H

/*
 * Decides for the currently chosen devices, carries out the decision and publishes it. Only
 * gf_requests_serve may call it: one thread at a time, any thread, possibly in a hook under the
 * loader's lock.
 */
void gf_decide(void);

#endif
