/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compiler's start files define __dso_handle, and this library is linked without those files.
 * libc's static pthread_atfork and atexit pass it to tell which object registers a handler. The
 * symbol is weak, for builds that do link the start files.
 */
extern const void *const __dso_handle;
__attribute__((visibility("hidden"), weak)) const void *const __dso_handle = &__dso_handle;
