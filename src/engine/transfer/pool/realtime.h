/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_ENGINE_TRANSFER_POOL_REALTIME_H
#define GF_ENGINE_TRANSFER_POOL_REALTIME_H

#include <stdbool.h>

/*
 * Whether the calling thread has a real-time policy. Helpers are ordinary threads. While real-time
 * threads keep all CPUs busy, a helper cannot finish a piece that it has begun. A real-time caller
 * could then wait for that helper forever. So the copies of such a caller are left to the driver,
 * and the caller does the pieces of its other jobs alone. While the library may not ask the kernel
 * (os/permit.h), the last answer for the thread holds.
 */
bool gf_is_realtime(void);

#endif
