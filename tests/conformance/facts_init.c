/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls before cuInit, cuInit itself, the threads that it creates, error names; devices and
 * cuGetProcAddress.
 */
#include "conform.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Prints the names of all threads except the main thread. */
static void row_threads(const char *name)
{
    char names[64][32], all[2048] = "";
    int count = 0;
    DIR *dir = opendir("/proc/self/task");
    sleep_ms(50); /* time for new threads to set their names */
    for (struct dirent *e; dir && (e = readdir(dir)) && count < 64;) {
        char path[300];
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", e->d_name);
        FILE *file = e->d_name[0] == '.' || atoi(e->d_name) == getpid() ? NULL : fopen(path, "r");
        if (!file)
            continue;
        if (fgets(names[count], 32, file))
            count++;
        fclose(file);
    }
    closedir(dir);
    qsort(names, (size_t)count, 32, by_name);
    for (int i = 0; i < count; i++) {
        names[i][strcspn(names[i], "\n")] = 0;
        strcat(all, i ? " " : "");
        strcat(all, names[i]);
    }
    row(name, "%s", all);
}

void facts_init(void)
{
    int number = -1;
    CUdevice device;
    CUcontext context;
    unsigned flags;
    void *entry = NULL;
    char name[64];
    row_code("before.count", cu.cuDeviceGetCount(&number));
    row_code("before.get", cu.cuDeviceGet(&device, 0));
    row_code("before.current", cu.cuCtxGetCurrent(&context));
    row_code("before.set_current_null", cu.cuCtxSetCurrent(NULL));
    row_code("before.retain", cu.cuDevicePrimaryCtxRetain(&context, 0));
    row_code("before.get_flags", cu.cuMemHostGetFlags(&flags, &flags));
    row_code("before.version", cu.cuDriverGetVersion(&number));
    row("version", "%d", number / 1000);
    row_code("before.procaddr", cu.cuGetProcAddress_v2("cuInit", &entry, 2000, 0, NULL));
    row_threads("before.threads");
    row_code("flag", cu.cuInit(1));
    row_code("init", cu.cuInit(0));
    row_code("init_again", cu.cuInit(0));
    row_threads("threads");
    row_code("version_null", cu.cuDriverGetVersion(NULL));
    row_code("retain", cu.cuDevicePrimaryCtxRetain(&context, 0));
    row_threads("threads_with_context");
    for (int i = 0; i < 1000; i++) {
        const char *text = NULL, *error = NULL;
        CUresult result = cu.cuGetErrorName((CUresult)i, &error);
        cu.cuGetErrorString((CUresult)i, &text);
        snprintf(name, sizeof name, "error.%d", i);
        if (!result)
            row(name, "%s: %s", error, text);
    }
    row_code("error_unknown", cu.cuGetErrorName((CUresult)12345, &(const char *){NULL}));
}

void facts_device(void)
{
    char text[128], name[64];
    int number, minor;
    size_t bytes;
    CUdevice device = -7;
    MUST(cu.cuInit(0));
    row_code("get", cu.cuDeviceGet(&device, 0));
    row("handle", "%d", device);
    row_code("get_beyond", cu.cuDeviceGet(&device, 99));
    row_code("get_negative", cu.cuDeviceGet(&device, -1));
    row_code("get_null", cu.cuDeviceGet(NULL, 0));
    row_code("count_null", cu.cuDeviceGetCount(NULL));
    MUST(cu.cuDeviceGetName(text, sizeof text, 0));
    row("name", "%s", text);
    row_code("name_short", cu.cuDeviceGetName(text, 4, 0));
    row("name_short_text", "%.8s", text);
    row_code("name_beyond", cu.cuDeviceGetName(text, 4, 99));
    MUST(cu.cuDeviceGetPCIBusId(text, sizeof text, 0));
    row("pci", "%s", text);
    row_code("pci_back", cu.cuDeviceGetByPCIBusId(&device, text));
    row_code("pci_unknown", cu.cuDeviceGetByPCIBusId(&device, "0000:ff:1f.0"));
    row_code("pci_short", cu.cuDeviceGetPCIBusId(text, 4, 0));
    MUST(cu.cuDeviceTotalMem_v2(&bytes, 0));
    row("memory_mib", "%zu", bytes >> 20);
    MUST(cu.cuDeviceComputeCapability(&number, &minor, 0));
    row("capability", "%d.%d", number, minor);
    for (int i = 0; i < 160; i++) {
        number = 0;
        CUresult result = cu.cuDeviceGetAttribute(&number, (CUdevice_attribute)i, 0);
        snprintf(name, sizeof name, "attribute.%d", i);
        if (result)
            row(name, "code %d", (int)result);
        else
            row(name, "%d", number);
    }
    row_code("attribute_device", cu.cuDeviceGetAttribute(&number, 1, 99));
    row_code("attribute_null", cu.cuDeviceGetAttribute(NULL, 1, 0));
}

/* Returns the exported name that has this address. */
static const char *exported(const char *base, void *address)
{
    static const char *const suffixes[] = {"",         "_v2",      "_v3",       "_v4",
                                           "_ptsz",    "_ptds",    "_v2_ptsz",  "_v2_ptds",
                                           "_v3_ptsz", "_v3_ptds", "WithFlags", NULL};
    static char name[128];
    for (int i = 0; suffixes[i]; i++) {
        snprintf(name, sizeof name, "%s%s", base, suffixes[i]);
        if (address && dlsym(driver_handle, name) == address)
            return name;
    }
    return address ? "something else" : "NULL";
}

static void ask(const char *base, int version, cuuint64_t flags)
{
    char name[160];
    void *address = (void *)1;
    CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)9;
    CUresult result = cu.cuGetProcAddress_v2(base, &address, version, flags, &status);
    snprintf(name, sizeof name, "%s.%d.%d", base, version, (int)flags);
    if (result)
        row(name, "code %d, %s, status %d", (int)result,
            address == (void *)1 ? "untouched" : "written", (int)status);
    else
        row(name, "%s, status %d", exported(base, address), (int)status);
}

void facts_procaddr(void)
{
    static const struct {
        const char *base;
        int version;
        int flags;
    } questions[] = {
        {"cuInit", 2000, 0},
        {"cuInit", 13000, 2},
        {"cuInit", 1999, 0},
        {"cuInit", 0, 0},
        {"cuInit", -1, 0},
        {"cuInit", 13001, 0},
        {"cuInit", 13009, 0},
        {"cuInit", 13010, 0},
        {"cuInit", 99000, 0},
        {"cuInit", 2000, 3},
        {"cuInit", 2000, 4},
        {"cuInit", 2000, 8},
        {"cuNoSuchThing", 12000, 0},
        {"", 12000, 0},
        {"cuMemAlloc_v2", 12000, 0},
        {"cuMemcpyHtoDAsync_v2_ptsz", 12000, 2},
        {"cuMemAlloc", 1000, 0},
        {"cuMemAlloc", 2000, 0},
        {"cuMemAlloc", 3010, 0},
        {"cuMemAlloc", 3020, 0},
        {"cuMemAlloc", 3020, 2},
        {"cuMemAlloc", 13000, 0},
        {"cuMemFree", 3020, 0},
        {"cuMemHostAlloc", 2020, 0},
        {"cuMemHostRegister", 4000, 0},
        {"cuMemHostRegister", 6050, 0},
        {"cuMemcpy", 4000, 0},
        {"cuMemcpy", 4000, 2},
        {"cuMemcpy", 6050, 2},
        {"cuMemcpy", 7000, 0},
        {"cuMemcpy", 7000, 1},
        {"cuMemcpy", 7000, 2},
        {"cuMemcpy", 7000, 3},
        {"cuMemcpyHtoD", 2000, 2},
        {"cuMemcpyHtoD", 3020, 2},
        {"cuMemcpyHtoD", 7000, 2},
        {"cuMemcpyHtoDAsync", 3020, 0},
        {"cuMemcpyHtoDAsync", 7000, 2},
        {"cuMemcpyHtoDAsync", 13000, 1},
        {"cuMemcpyBatchAsync", 12080, 0},
        {"cuMemcpyBatchAsync", 12080, 2},
        {"cuMemcpyBatchAsync", 13000, 0},
        {"cuMemcpyBatchAsync", 13000, 2},
        {"cuMemAllocAsync", 11020, 0},
        {"cuMemAllocAsync", 11020, 2},
        {"cuCtxCreate", 2000, 0},
        {"cuCtxCreate", 3020, 0},
        {"cuCtxCreate", 11040, 0},
        {"cuCtxCreate", 12050, 0},
        {"cuCtxCreate", 13000, 0},
        {"cuCtxGetDevice", 12080, 0},
        {"cuCtxGetDevice", 13000, 0},
        {"cuCtxSynchronize", 13000, 0},
        {"cuDeviceGetUuid", 9020, 0},
        {"cuDeviceGetUuid", 11040, 0},
        {"cuGetProcAddress", 11030, 0},
        {"cuGetProcAddress", 11030, 2},
        {"cuGetProcAddress", 12000, 0},
        {"cuGetProcAddress", 12000, 2},
        {"cuGraphInstantiate", 10000, 0},
        {"cuGraphInstantiate", 11000, 0},
        {"cuGraphInstantiate", 12000, 0},
        {"cuGraphInstantiateWithFlags", 11040, 0},
        {"cuGraphExecUpdate", 10020, 0},
        {"cuGraphExecUpdate", 12000, 0},
        {"cuStreamGetCaptureInfo", 10010, 0},
        {"cuStreamGetCaptureInfo", 11030, 0},
        {"cuStreamGetCaptureInfo", 12029, 0},
        {"cuStreamGetCaptureInfo", 12030, 2},
        {"cuStreamWaitValue32", 8000, 0},
        {"cuStreamWaitValue32", 11070, 0},
        {"cuStreamWaitValue32", 11070, 2},
        {"cuEventElapsedTime", 12080, 0},
        {"cuEventRecord", 2000, 2},
        {"cuEventRecord", 7000, 2},
        {"cuEventQuery", 7000, 2},
        {"cuGetExportTable", 3000, 0},
        {"cuLaunchKernel", 4000, 0},
        {"cuLaunchKernel", 7000, 2},
        {"cuMemPrefetchAsync", 8000, 0},
        {"cuMemPrefetchAsync", 12020, 0},
        {"cuMemPrefetchAsync", 12020, 2},
        {"cuDevicePrimaryCtxRelease", 7000, 0},
        {"cuDevicePrimaryCtxRelease", 11000, 0},
    };
    void *address = (void *)1;
    MUST(cu.cuInit(0));
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++)
        ask(questions[i].base, questions[i].version, (cuuint64_t)questions[i].flags);
    row_code("v1", cu.cuGetProcAddress("cuInit", &address, 2000, 0));
    row("v1_address", "%s", exported("cuInit", address));
    address = (void *)1;
    row_code("v1_unknown", cu.cuGetProcAddress("cuNoSuchThing", &address, 12000, 0));
    row("v1_unknown_address", "%s", address == (void *)1 ? "untouched" : exported("cu", address));
    address = (void *)1;
    row_code("v1_too_old", cu.cuGetProcAddress("cuMemAlloc", &address, 1000, 0));
    row("v1_too_old_address", "%s", address == (void *)1 ? "untouched" : exported("cu", address));
    row_code("status_null", cu.cuGetProcAddress_v2("cuInit", &address, 2000, 0, NULL));
    row("v2_ptsz_exported", "%s", dlsym(driver_handle, "cuGetProcAddress_v2_ptsz") ? "yes" : "no");
}
