/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_REPORT_OUTPUT_ANSWER_SCHEMA_H
#define GF_CLI_REPORT_OUTPUT_ANSWER_SCHEMA_H

/*
 * The number of the schema of `gpufeed report --json`. Renaming or removing a field raises it;
 * adding a field does not.
 */
#define GF_ANSWER_SCHEMA 1

#endif
