/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The areas of GPUFEED_DEBUG, in the order of their bits: X(value of the option, word in the line)
 */
#define GF_LOG_AREAS(X) X(debug, copy) X(debug, heap) X(debug, place)
