/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules and launches. Any image is accepted as a module; for PTX text, the names of the entries
 * are kept. The name of a kernel determines what it does. `spin` runs for the nanoseconds in its
 * first parameter, `wild` touches a bad address, and `trap` traps. Any other kernel does nothing.
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct function {
    struct function *next;
    struct module *module;
    char name[128];
};

struct module {
    char *text; /* PTX, or NULL if the image is something else */
    struct function *functions;
};

static bool is_ptx(const char *image)
{
    return strncmp(image, "//", 2) == 0 || strncmp(image, ".version", 8) == 0 ||
           strncmp(image, "\n", 1) == 0;
}

CUresult cuModuleLoadData(CUmodule *ret, const void *image)
{
    SIM_ENTER_CONTEXT("cuModuleLoadData", context);
    (void)context;
    if (!ret || !image)
        return CUDA_ERROR_INVALID_VALUE;
    struct module *module = calloc(1, sizeof *module);
    if (!module)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (is_ptx(image))
        module->text = strdup(image);
    *ret = (CUmodule)module;
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadDataEx(CUmodule *ret, const void *image, unsigned count, CUjit_option *options,
                            void **values)
{
    SIM_ENTER("cuModuleLoadDataEx");
    (void)count, (void)options, (void)values;
    return cuModuleLoadData(ret, image);
}

CUresult cuModuleUnload(CUmodule handle)
{
    SIM_ENTER_CONTEXT("cuModuleUnload", context);
    struct module *module = (struct module *)handle;
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&sim_lock);
    sim_wait_context(context);
    pthread_mutex_unlock(&sim_lock);
    while (module->functions) {
        struct function *f = module->functions;
        module->functions = f->next;
        free(f);
    }
    free(module->text);
    free(module);
    return CUDA_SUCCESS;
}

/* Returns whether the text contains `.entry NAME(`. */
static bool has_entry(const char *text, const char *name)
{
    size_t length = strlen(name);
    while ((text = strstr(text, ".entry"))) {
        text += strlen(".entry");
        text += strspn(text, " \t\n");
        if (strncmp(text, name, length) == 0 && strchr(" \t\n({", text[length]))
            return true;
    }
    return false;
}

CUresult cuModuleGetFunction(CUfunction *ret, CUmodule handle, const char *name)
{
    SIM_ENTER_CONTEXT("cuModuleGetFunction", context);
    (void)context;
    struct module *module = (struct module *)handle;
    if (!ret || !name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    if (module->text && !has_entry(module->text, name))
        return CUDA_ERROR_NOT_FOUND;
    struct function *function = calloc(1, sizeof *function);
    if (!function)
        return CUDA_ERROR_OUT_OF_MEMORY;
    snprintf(function->name, sizeof function->name, "%s", name);
    pthread_mutex_lock(&sim_lock);
    function->module = module;
    function->next = module->functions;
    module->functions = function;
    pthread_mutex_unlock(&sim_lock);
    *ret = (CUfunction)function;
    return CUDA_SUCCESS;
}

static void run(struct sim_op *op)
{
    CUresult fault = sim_fault("kernel");
    if (!fault)
        fault = (CUresult)op->payload[1];
    if (fault)
        sim_break(op->context, fault);
    else if (op->payload[2]) /* the GPU accesses pageable memory */
        memset((void *)op->payload[2], (int)op->payload[0], op->payload[3]);
    else
        sim_sleep_ns(op->payload[0]);
}

static CUresult launch_on(bool per_thread, CUfunction handle, CUstream s, void **params)
{
    struct sim_stream *stream;
    const struct function *function = (const struct function *)handle;
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = sim_stream_enter(s, per_thread, &stream);
    if (result)
        return result;
    struct sim_op *op = sim_op_new(run, 4 * sizeof op->payload[0]);
    if (strcmp(function->name, "spin") == 0 && params && params[0])
        op->payload[0] = *(const uint64_t *)params[0];
    if (strcmp(function->name, "store") == 0 && params)
        for (unsigned i = 0; i < 3 && params[i]; i++)
            op->payload[i ? i + 1 : 0] = *(const uint64_t *)params[i];
    if (strcmp(function->name, "wild") == 0)
        op->payload[1] = CUDA_ERROR_ILLEGAL_ADDRESS;
    if (strcmp(function->name, "trap") == 0)
        op->payload[1] = CUDA_ERROR_LAUNCH_FAILED;
    result = sim_issue(stream, CU_GRAPH_NODE_TYPE_KERNEL, op, NULL);
    pthread_mutex_unlock(&sim_lock);
    return result;
}

static CUresult launch(bool per_thread, CUfunction function, unsigned gx, unsigned gy, unsigned gz,
                       unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream s,
                       void **params, void **extra)
{
    (void)shared, (void)extra;
    if (!gx || !gy || !gz || !bx || !by || !bz || (uint64_t)bx * by * bz > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    return launch_on(per_thread, function, s, params);
}

SIM_TWINS(cuLaunchKernel, _ptsz, launch,
          (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
           unsigned bz, unsigned shared, CUstream s, void **params, void **extra),
          (f, gx, gy, gz, bx, by, bz, shared, s, params, extra))

static CUresult launch_ex(bool per_thread, const CUlaunchConfig *config, CUfunction function,
                          void **params, void **extra)
{
    (void)extra;
    return config ? launch_on(per_thread, function, config->hStream, params)
                  : CUDA_ERROR_INVALID_VALUE;
}

SIM_TWINS(cuLaunchKernelEx, _ptsz, launch_ex,
          (const CUlaunchConfig *config, CUfunction f, void **params, void **extra),
          (config, f, params, extra))
