/* SPDX-License-Identifier: Apache-2.0 */
/* Queries of a device, and its primary context. */
#include "sim.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int sim_device_count;
struct sim_device sim_devices[SIM_DEVICES_MAX];

/*
 * Values of an H200 (driver 580), by attribute number. Values that depend on the machine are set
 * below.
 */
static const struct {
    int attribute, value;
} attributes[] = {
#define SIM_ATTRIBUTE(number, value) {number, value},
#include "attributes.def"
};

static bool known(CUdevice device)
{
    return device >= 0 && device < sim_device_count;
}

CUresult cuDeviceGetCount(int *count)
{
    SIM_ENTER("cuDeviceGetCount");
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = sim_device_count;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    SIM_ENTER("cuDeviceGet");
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    if (!known(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    SIM_ENTER("cuDeviceGetName");
    if (!name || length < 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (!known(device))
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)length, "%s", sim_config.device[sim_devices[device].index].name);
    return CUDA_SUCCESS;
}

static CUresult get_uuid(CUuuid *uuid, CUdevice device)
{
    if (!uuid)
        return CUDA_ERROR_INVALID_VALUE;
    if (!known(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *uuid = sim_config.device[sim_devices[device].index].uuid;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    SIM_ENTER("cuDeviceGetUuid");
    return get_uuid(uuid, device);
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    SIM_ENTER("cuDeviceGetUuid_v2");
    return get_uuid(uuid, device);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    SIM_ENTER("cuDeviceTotalMem_v2");
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (!known(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *bytes = sim_config.memory;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *text, int length, CUdevice device)
{
    SIM_ENTER("cuDeviceGetPCIBusId");
    if (!text || length < 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (!known(device))
        return CUDA_ERROR_INVALID_DEVICE;
    const char *pci = sim_config.device[sim_devices[device].index].pci;
    if (strlen(pci) >= (size_t)length)
        return CUDA_ERROR_INVALID_VALUE;
    strcpy(text, pci);
    for (; *text; text++)
        *text = (char)toupper((unsigned char)*text);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *text)
{
    SIM_ENTER("cuDeviceGetByPCIBusId");
    if (!device || !text)
        return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < sim_device_count; i++)
        if (strcasecmp(sim_config.device[sim_devices[i].index].pci, text) == 0) {
            *device = i;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_DEVICE;
}

/* Reads the value of an attribute from SIM_ATTRIBUTES ("number:value,..."). */
static bool told(int attribute, int *ret)
{
    const char *at = getenv("SIM_ATTRIBUTES");
    for (char *end; at && *at; at = *end == ',' ? end + 1 : "") {
        const long number = strtol(at, &end, 0);
        const long value = *end == ':' ? strtol(end + 1, &end, 0) : 0;
        if (number == attribute) {
            *ret = (int)value;
            return true;
        }
    }
    return false;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    SIM_ENTER("cuDeviceGetAttribute");
    unsigned domain = 0, bus = 0, slot = 0;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    if (!known(device))
        return CUDA_ERROR_INVALID_DEVICE;
    sscanf(sim_config.device[sim_devices[device].index].pci, "%x:%x:%x", &domain, &bus, &slot);
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
        *value = (int)domain;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        *value = (int)bus;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
        *value = (int)slot;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
        *value = sim_config.host_numa_id;
        return CUDA_SUCCESS;
    default:
        break;
    }
    if (told((int)attribute, value))
        return CUDA_SUCCESS;
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++)
        if (attributes[i].attribute == (int)attribute) {
            *value = attributes[i].value;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
    SIM_ENTER("cuDeviceComputeCapability");
    if (!major || !minor)
        return CUDA_ERROR_INVALID_VALUE;
    if (!known(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *major = 9;
    *minor = 0;
    return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    SIM_ENTER("cuDeviceCanAccessPeer");
    if (!can)
        return CUDA_ERROR_INVALID_VALUE;
    if (!known(device) || !known(peer))
        return CUDA_ERROR_INVALID_DEVICE;
    *can = device != peer;
    return CUDA_SUCCESS;
}
