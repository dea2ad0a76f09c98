/* SPDX-License-Identifier: Apache-2.0 */
/* Answers questions that may crash or hang in forked children. */
#ifndef GF_TESTS_UNWIND_CHILD_H
#define GF_TESTS_UNWIND_CHILD_H

#include <stddef.h>

/* Writes the answer to question i. */
typedef void child_ask(size_t i, void *ret);

struct child_outcome {
    size_t answered, crashed, hung;
    size_t first_lost; /* the first question that crashed or hung */
};

/* Returns zeroed memory that children share with their parent. */
void *child_memory(size_t size);

/*
 * Asks all questions. `answers` is memory of child_memory. A question that crashed, or that made no
 * progress for seconds, keeps its previous answer there. After a child is lost, another one
 * continues with the next question.
 */
void child_run(child_ask *ask, size_t count, void *answers, size_t answer_size,
               struct child_outcome *ret);

#endif
