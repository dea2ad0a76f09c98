/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_ENGINE_REPORT_REPORT_SCHEMA_H
#define GF_ENGINE_REPORT_REPORT_SCHEMA_H

/*
 * The number of the report's schema. Renaming or removing a field raises it; adding a field does
 * not.
 */
#define GF_REPORT_SCHEMA 2

#endif
