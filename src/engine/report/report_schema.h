/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_ENGINE_REPORT_REPORT_SCHEMA_H
#define GF_ENGINE_REPORT_REPORT_SCHEMA_H

/*
 * The number of the report's schema. Increase it if a field is renamed or removed, but not if a
 * field is added.
 */
#define GF_REPORT_SCHEMA 2

#endif
