/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel that runs for the number of nanoseconds in its parameter. The simulated driver runs it, too. */
#ifndef GF_BENCH_SPIN_PTX_H
#define GF_BENCH_SPIN_PTX_H

static const char spin_ptx[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
                               ".visible .entry spin(.param .u64 ns)\n{\n"
                               ".reg .u64 %a, %b, %n;\n.reg .pred %p;\n"
                               "ld.param.u64 %n, [ns];\nmov.u64 %a, %globaltimer;\n"
                               "again:\nmov.u64 %b, %globaltimer;\nsub.u64 %b, %b, %a;\n"
                               "setp.lt.u64 %p, %b, %n;\n@%p bra again;\nret;\n}\n";

#endif
