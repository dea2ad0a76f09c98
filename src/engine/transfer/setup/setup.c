/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/setup/setup.h"

struct gf_transfer_setup gf_setup;

void gf_setup_set(const struct gf_transfer_setup *setup)
{
    gf_setup = *setup;
}
