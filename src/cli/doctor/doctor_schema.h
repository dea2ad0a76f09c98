/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_DOCTOR_DOCTOR_SCHEMA_H
#define GF_CLI_DOCTOR_DOCTOR_SCHEMA_H

/*
 * The schema number of `gpufeed doctor --json`. Raise it when a field is renamed or removed, not when
 * one is added.
 */
#define GF_DOCTOR_SCHEMA 2

#endif
