/* SPDX-License-Identifier: Apache-2.0 */
/* Exported. This library also uses the symbol to recognise a handle of its own. */
#define GPUFEED_BUILDING
#include "gpufeed.h"

const char *gpufeed_version(void)
{
    return GF_VERSION;
}
