/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options that `gpufeed run` carries out before the program starts: GPUFEED_HUGE_PAGES, GPUFEED_OMP
 * and GPUFEED_TCMALLOC. Under a bare LD_PRELOAD, the engine carries them out as far as a running
 * process permits, and prints one line for each that it cannot carry out. All functions do nothing
 * unless the user set the option.
 */
#pragma once

#include "base/base.h"

/* Called on the library's thread when the engine starts. May take the loader's lock. */
void gf_start_options_begin(void);

/*
 * Lowers the number of OpenMP threads of the calling thread to the process's share of the CPUs, once
 * in each process, after the first decision. A thread of the program calls this function, because
 * the runtimes keep the number for each thread that is not one of their own. Keeps errno.
 */
void gf_start_options_openmp(void);
