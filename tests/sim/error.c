/* SPDX-License-Identifier: Apache-2.0 */
/* Names and texts of error codes. */
#include "sim.h"

static const struct {
    int code;
    const char *name, *text;
} errors[] = {
#define SIM_ERROR(code, name, text) {code, #name, text},
#include "errors.def"
};

static CUresult find(CUresult code, bool name, const char **ret)
{
    if (!ret)
        return CUDA_ERROR_INVALID_VALUE;
    *ret = NULL;
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].code == (int)code) {
            *ret = name ? errors[i].name : errors[i].text;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult code, const char **ret)
{
    SIM_ENTER("cuGetErrorName");
    return find(code, true, ret);
}

CUresult cuGetErrorString(CUresult code, const char **ret)
{
    SIM_ENTER("cuGetErrorString");
    return find(code, false, ret);
}
