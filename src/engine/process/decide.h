/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_ENGINE_PROCESS_DECIDE_H
#define GF_ENGINE_PROCESS_DECIDE_H

/*
 * Decides for the devices that are chosen now, carries out the decision and publishes it. Only
 * gf_requests_serve may call this function, so that one thread calls it at a time. This may be any
 * thread, possibly in a hook under the loader's lock.
 */
void gf_decide(void);

#endif
