/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process's first copy is the driver's, and what the library asks for it comes on top: twenty questions whose code,
 * the driver's and ours, no page table has yet and no cache. They are asked once before, when a context is current
 * for the first time, which the driver has taken its time for: those about memory, devices and the context. None about a
 * stream, since another thread may be about to capture.
 */
#ifndef GF_TRANSFER_REHEARSE_H
#define GF_TRANSFER_REHEARSE_H

/* Inside a call of the program's. Nothing is kept of what the driver says, and nothing counted. */
void gf_rehearse(void);

#endif
