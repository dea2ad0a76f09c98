/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/hook/submitters.h"

struct gf_submit_table gf_submissions;
