/* SPDX-License-Identifier: Apache-2.0 */
/* The exported functions of the malloc family that libc's headers do not declare. */
#pragma once

#include <malloc.h>
#include <stdlib.h>

void cfree(void *block);
void free_sized(void *block, size_t size);
void free_aligned_sized(void *block, size_t alignment, size_t size);

#define GF_FAMILY_ALIAS(alias, name, type, parameters, arguments) type alias parameters;
#include "abi/family.def"
