/* SPDX-License-Identifier: Apache-2.0 */
/* Lines for people, put together in a buffer that is given; what does not fit is cut. */
#ifndef GF_OBSERVE_WORDS_H
#define GF_OBSERVE_WORDS_H

#include "base/base.h"

struct gf_words {
    char *buf;
    size_t size, at;
};

void gf_say(struct gf_words *words, const char *format, ...) GF_PRINTF(2, 3);
/* "812 MiB", "12.3 GiB" */
void gf_say_bytes(struct gf_words *words, uint64_t bytes);

#endif
