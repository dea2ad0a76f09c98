/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/pages/page_counts.h"

struct gf_page_counts gf_page_counts;
