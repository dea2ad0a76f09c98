/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_PRELOAD_TRACE_LOG_SCHEMA_H
#define GF_PRELOAD_TRACE_LOG_SCHEMA_H

/*
 * The number of the log's schema. Adding a field keeps the number; renaming or removing a field
 * raises it.
 */
#define GF_LOG_SCHEMA 2

#endif
