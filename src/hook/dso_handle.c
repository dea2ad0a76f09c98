/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a shared object has from the compiler's start files besides constructors and destructors,
 * which the door does without: libc's static pthread_atfork and atexit name it to say whose handler
 * they register. Weak, for builds that do link the start files.
 */
extern const void *const __dso_handle;
__attribute__((visibility("hidden"), weak)) const void *const __dso_handle = &__dso_handle;
