/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libc's static pthread_atfork and atexit pass __dso_handle to identify the object that registers a
 * handler. The compiler's start files define this symbol, but this library is linked without them.
 * The definition here is weak, for builds that link the start files.
 */
extern const void *const __dso_handle;
__attribute__((visibility("hidden"), weak)) const void *const __dso_handle = &__dso_handle;
