/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_PRELOAD_TRACE_LOG_SCHEMA_H
#define GF_PRELOAD_TRACE_LOG_SCHEMA_H

/*
 * The number of the log's schema. Raise it if a field is renamed or removed, not if one is added.
 */
#define GF_LOG_SCHEMA 2

#endif
