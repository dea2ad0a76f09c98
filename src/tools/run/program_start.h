/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of starting a program with the library, each in a file of its own. */
#pragma once

#include "base/cpus.h"
#include "config/options.h"
#include "host/verdict.h"
#include "tools/topo/topo.h"

/*
 * environ.c: sets a variable of this process, which the program inherits; if value is NULL, removes it. Exits
 * if memory is short.
 */
void gf_env_set(const char *name, const char *value);

/*
 * GPUFEED_OMP=auto: sets OMP_NUM_THREADS, unless it is already set, to this process's share of the CPUs in
 * `start`, the mask before the binding. Ranks that share this mask get equal parts. If no launcher
 * gives the number of ranks, the variable is set only if one_gpu is true, because a program with
 * several GPUs may start ranks itself. The process must have one thread.
 */
void gf_thread_count_apply(const struct gf_cpus *start, bool one_gpu);

/* exec_target.c: finds the program to run, and what prevents a preload in it. */

/*
 * Finds the file that execvp(name) would run if PATH were `path` (NULL: the system's default). 0,
 * -ENOENT or -EACCES.
 */
int gf_exec_target_find(const char *name, const char *path, char *ret, size_t size);

struct gf_exec_obstacle {
    const char *why; /* such as "statically linked"; NULL if a preload works */
    bool harmless;   /* the loader ignores the preload in this program, but not in its children */
};

/*
 * Inspects the file or, if it is a script, its interpreter. A file that cannot be read has no
 * obstacle.
 */
void gf_exec_target_inspect(const char *file, struct gf_exec_obstacle *ret);

/*
 * Whether the interpreter or the loader that the file needs is missing. For a script, this includes
 * the loader of its interpreter. If a path is missing, copies it to ret.
 */
bool gf_exec_target_lacks(const char *file, char *ret, size_t size);

/*
 * preload_path.c: copies the folder of the running command, without a trailing slash. Returns 0 or
 * -ENOENT.
 */
int gf_own_folder(char *ret, size_t size);

/*
 * Finds the absolute path of libgpufeed.so from the path of this command. The command may be
 * installed, in a bundle or in a build tree. Returns 0 or -ENOENT. LD_PRELOAD cannot hold some
 * paths: blanks and colons separate its entries, and the loader expands dollar signs. If the
 * command was started through a symbolic link, the link's path is used instead of such a path.
 * Otherwise returns -EINVAL, with the path in ret.
 */
int gf_ld_preload_find(char *ret, size_t size);

/*
 * Returns the library's path, followed by the entries of `present` (may be NULL) except other
 * copies of the library. The caller frees the result.
 */
char *gf_ld_preload_join(const char *library, const char *present);

/*
 * prebind.c: binds this process before exec, so that the program runs on the GPU's node from its
 * first instruction and its first page on.
 */

/* Predicts which GPU a program will use, or at least the GPU's node, before the program starts. */
struct gf_prediction {
    struct gf_gpu gpus[GF_VISIBLE_GPUS_MAX];
    size_t count;   /* 0 if no GPU is visible, or the GPU is uncertain */
    char why[1280]; /* the reason for the prediction or its absence; always set */
};

struct gf_prebind {
    bool known; /* there is a verdict; otherwise prediction.why gives the reason */
    struct gf_prediction prediction;
    struct gf_verdict verdict;
    char note[160]; /* which call the kernel refused; "" if it refused none */
};

/*
 * Decides about the binding by options and environment. Unless `dry`, binds the process, which must have
 * one thread, and puts a hint for the library into the environment. If the mask cannot be set, mask and policy
 * stay unchanged.
 */
void gf_prebind_apply(const struct gf_options *options, bool dry, struct gf_prebind *ret);

/* init.c: `gpufeed run --init`: this process stays as the init of a container. */

/*
 * Forks. Returns true in the child, where the caller executes the program. The child has the
 * original signal mask and actions. It has a new process group, which becomes the terminal's
 * foreground group.
 *
 * The parent forwards each signal to the child, and reaps all children and orphans. After the child
 * has ended, the function returns false in the parent; *ret_code is the child's exit code, or 128
 * plus the number of the signal that ended the child.
 *
 * The process must have one thread. If the fork fails, prints an error and returns true: the program
 * runs without an init.
 */
bool gf_init_fork(int *ret_code);

/* private_shm.c: `gpufeed run --shm=huge`: a private mount of /dev/shm whose files consist of huge pages. */

enum gf_shm {
    gf_shm_mounted,
    gf_shm_kept,   /* the present mount already gives huge pages */
    gf_shm_failed, /* nothing has changed */
    gf_shm_ranks,  /* another rank on this host shares /dev/shm; nothing has changed */
};

/*
 * Mounts a tmpfs with huge=within_size on /dev/shm, in a mount namespace of this process. For a user
 * without capabilities, this namespace belongs to a user namespace with the same user and group. The
 * size is the free space of the present mount. A child process tries all calls first, so a refused
 * call changes nothing. If `dry`, only the child makes them. The process must have one thread.
 *
 * ret: the mount's options as the kernel reports them, or why there is no new mount.
 */
enum gf_shm gf_shm_mount(char *const *command, bool dry, char *ret, size_t size);
