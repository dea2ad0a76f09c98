/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_HOOK_ON_THREAD_H
#define GF_HOOK_ON_THREAD_H

/* A detached thread of ours past the hook, all signals blocked. errno value. */
int gf_on_thread_start_ours(void *(*run)(void *), void *arg);

#endif
