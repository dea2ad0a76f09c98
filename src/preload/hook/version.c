/* SPDX-License-Identifier: Apache-2.0 */
/* Exported to programs. Also used to recognise a handle of this library (driver_shim.c). */
#define GPUFEED_BUILDING
#include "gpufeed.h"

const char *gpufeed_version(void)
{
    return GF_VERSION;
}
