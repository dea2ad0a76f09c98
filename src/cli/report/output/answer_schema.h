/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_REPORT_OUTPUT_ANSWER_SCHEMA_H
#define GF_CLI_REPORT_OUTPUT_ANSWER_SCHEMA_H

/*
 * The schema number of `gpufeed report --json`. Raise it when a field is renamed or removed, not when
 * one is added.
 */
#define GF_ANSWER_SCHEMA 1

#endif
