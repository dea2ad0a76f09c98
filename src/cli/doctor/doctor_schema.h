/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_DOCTOR_DOCTOR_SCHEMA_H
#define GF_CLI_DOCTOR_DOCTOR_SCHEMA_H

/*
 * The number of the schema of `gpufeed doctor --json`. Renaming or removing a field raises it;
 * adding a field does not.
 */
#define GF_DOCTOR_SCHEMA 2

#endif
