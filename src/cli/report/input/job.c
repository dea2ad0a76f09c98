/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/input/job.h"

#include <stdlib.h>
#include <string.h>

void *gf_job_grown(void *list, size_t element, size_t count, size_t *room)
{
    if (count < *room)
        return list;
    const size_t wanted = *room ? *room + *room / 2 : 64;
    void *grown = reallocarray(list, wanted, element);
    if (grown)
        *room = wanted;
    return grown;
}

uint32_t gf_job_add_process(struct gf_job *job)
{
    struct gf_job_process *list =
        gf_job_grown(job->processes, sizeof(*list), job->process_count, &job->process_room);

    if (!list || job->process_count >= UINT32_MAX)
        return UINT32_MAX;
    job->processes = list;
    list[job->process_count] = (struct gf_job_process){.rank = -1};
    return (uint32_t)job->process_count++;
}

uint32_t gf_job_thread_of(struct gf_job *job, uint32_t process, int64_t tid)
{
    char key[sizeof(process) + sizeof(tid)];
    bool is_new;

    memcpy(key, &process, sizeof(process));
    memcpy(key + sizeof(process), &tid, sizeof(tid));
    const uint32_t number = gf_text_pool_add(&job->thread_keys, key, sizeof(key), &is_new);
    if (!is_new)
        return number && number <= job->thread_count ? number - 1 : UINT32_MAX;
    struct gf_job_thread *list =
        gf_job_grown(job->threads, sizeof(*list), job->thread_count, &job->thread_room);
    if (!list || number != job->thread_count + 1)
        return UINT32_MAX;
    job->threads = list;
    list[job->thread_count] = (struct gf_job_thread){.process = process, .tid = tid};
    return (uint32_t)job->thread_count++;
}

const char *gf_job_text(const struct gf_job *job, uint32_t text)
{
    return gf_text_pool_get(&job->texts, text);
}

bool gf_job_has_log(const struct gf_job *job)
{
    for (size_t i = 0; i < job->process_count; i++)
        if (job->processes[i].logged)
            return true;
    return false;
}

void gf_job_free(struct gf_job *job)
{
    for (size_t i = 0; i < job->process_count; i++)
        json_decref(job->processes[i].report);
    gf_text_pool_free(&job->texts);
    gf_text_pool_free(&job->stack_keys);
    gf_text_pool_free(&job->thread_keys);
    free(job->processes);
    free(job->threads);
    free(job->stacks);
    free(job->stalls);
    free(job->notes);
    free(job->marks);
    free(job->activity);
    free(job->copies);
    free(job->frames);
    json_decref(job->doctors);
    *job = (struct gf_job){0};
}
