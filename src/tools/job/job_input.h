/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a job from its logs and reports. */
#pragma once

#include "tools/job/job.h"

/*
 * scan.c: scans JSON text without copies and without allocation. A log line has about a thousand
 * bytes, but the command needs only a few of its values, and skips the others. Damaged text sets
 * `bad` and ends the scan. No byte outside of the text is read.
 */

/* Bytes of the caller's text. The span of a value includes the quotes of a string. */
struct gf_span {
    const char *at;
    size_t size;
};

struct gf_scan {
    const char *at, *end;
    bool first, bad;
};

/* Begins a scan of the span, which contains an object (bracket is '{') or a list ('['). */
struct gf_scan gf_scan_begin(struct gf_span text, char bracket);

/*
 * Returns the next member of an object; the key is without its quotes. Returns false at the end, or
 * if the text is damaged.
 */
bool gf_scan_member(struct gf_scan *scan, struct gf_span *ret_key, struct gf_span *ret_value);

/* Returns the next element of a list. */
bool gf_scan_element(struct gf_scan *scan, struct gf_span *ret_value);

/* Called after the last member or element. True if only blanks follow. */
bool gf_scan_ended(const struct gf_scan *scan);

bool gf_span_is(struct gf_span span, const char *word);

/*
 * Decodes a string into buf. Cuts it to size, and replaces control characters by '?'. If the value
 * is not a string, returns false and sets buf to "".
 */
bool gf_span_text(struct gf_span value, char *buf, size_t size);

/*
 * Return the value as a number; 0 if it is not a number. Integers are clamped to the range of the
 * type.
 */
double gf_span_number(struct gf_span value);
int64_t gf_span_int(struct gf_span value);
bool gf_span_is_number(struct gf_span value);

/*
 * event.c: the latest time that an event can have, in seconds since 1970. An event with a later
 * time counts as an event without a time.
 */
#define GF_TIME_MAX 1e11

/*
 * Expands X(field) for each field that the command reads, of an event or of an object in an event's
 * list. Other fields are skipped.
 */
#define GF_EVENT_FIELDS(X)                                                                         \
    X(event), X(time), X(mono), X(pid), X(tid), X(dropped), X(call), X(size), X(us), X(start),     \
        X(thread), X(step), X(python), X(stack), X(modules), X(cause), X(text), X(program),        \
        X(ppid), X(rank), X(host), X(threads), X(started), X(delay_ms), X(throttled_ms),           \
        X(fault_ms), X(steps), X(after_us), X(skipped), X(last), X(evidence), X(node),             \
        X(block_node), X(gpu), X(interval_ms), X(gpus), X(copies), X(direction), X(way), X(bytes), \
        X(longest)

/* The fields of an event, as spans of its line. A field that is absent has a span of size 0. */
struct gf_event {
#define GF_EVENT_MEMBER(field) field
    struct gf_span GF_EVENT_FIELDS(GF_EVENT_MEMBER);
#undef GF_EVENT_MEMBER
};

/* Reads the fields of a line. Returns false if the line is not a JSON object, or is damaged. */
bool gf_event_read(struct gf_span text, struct gf_event *ret);

/* Returns when an event occurred, in seconds since 1970; 0 if its time is missing or impossible. */
double gf_event_time(const struct gf_event *event);

/* True if the line is an event of this kind. */
bool gf_event_is(const struct gf_event *event, const char *kind);

/*
 * Reads a file line by line, in large blocks. Lines may contain zero bytes. The time is linear in
 * the space that the file takes: of a hole one byte is read, and of a file that grows meanwhile what
 * it had at the start. All files together may have 256 GiB, or the error is EFBIG.
 */

struct gf_line_reader {
    int fd;
    int error; /* errno of a failed read; 0 otherwise */
    char *buf;
    size_t size, from, to;
    uint64_t number; /* number of the line that was read last; the first line is 1 */
    uint64_t bytes;  /* number of bytes that were read from the file */
    off_t file_end;  /* where the file ended at the start; -1: it is not a regular file */
    bool ended;
    size_t block; /* the most bytes of a read, and 1 */
};

/* Begins to read from fd. The caller closes fd. */
void gf_line_reader_begin(struct gf_line_reader *reader, int fd);

/*
 * Returns the next line without its newline, valid until the next call. Lines are cut after 4 MiB.
 * Returns false at the end of the file, and after an error.
 */
bool gf_line_reader_next(struct gf_line_reader *reader, struct gf_span *ret);

/*
 * Returns `line`, which must be the last line that was read, together with the rest of the file.
 * The text is valid until gf_line_reader_end. Returns false if the text is longer than `limit`
 * bytes, or after an error.
 */
bool gf_line_reader_rest(struct gf_line_reader *reader, struct gf_span line, size_t limit,
                         struct gf_span *ret);

void gf_line_reader_end(struct gf_line_reader *reader);

/* job_events.c: adds lines of a log to a job. */

/*
 * The processes of one log, by pid. Each log needs a separate struct, because processes on
 * different hosts may have the same pid. The caller initializes it with zeros.
 */
struct gf_job_log {
    struct gf_text_pool keys;
    uint32_t *processes; /* the process + 1, by the key's number; 0: none yet */
    size_t room;
};

/* Returns the process of an event. An event of kind "process" begins a new process. */
uint32_t gf_job_process_of(struct gf_job *job, struct gf_job_log *log,
                           const struct gf_event *event);

/* Adds an event of a log to the job. Impossible times and durations of stalls are stored as 0. */
void gf_job_add_event(struct gf_job *job, struct gf_job_log *log, const struct gf_event *event);

void gf_job_log_free(struct gf_job_log *log);

/*
 * sources.c: the files that the operands of `gpufeed report` name: logs, reports, folders of them.
 */

#define GF_SOURCES_MAX 200000

struct gf_source {
    char *path;
    bool is_named; /* an operand names it; other files are in a folder that an operand names */
    dev_t device;  /* identifies the file; 0 if unknown */
    ino_t inode;
};

struct gf_sources {
    struct gf_source *list;
    size_t count;
    size_t names;    /* in folders */
    size_t repeated; /* files that gf_sources_drop_repeated dropped */
};

/*
 * Adds a path. If the path is a folder, adds the regular files in it and in its subfolders, down to
 * eight levels, sorted and without hidden files. Skips the folders of procfs and sysfs. Returns 0,
 * -EFBIG if there are more than GF_SOURCES_MAX files or twice as many names, or -errno if a folder
 * cannot be read.
 */
int gf_sources_add(struct gf_sources *sources, const char *path);

/* Keeps one source of each file. A file may have several names: links, or operands in a folder. */
void gf_sources_drop_repeated(struct gf_sources *sources);

/* Opens a source for reading; "-" is standard input. Returns the descriptor, or -errno. */
int gf_source_open(const struct gf_source *source);

/* The reason of an error of gf_source_open. */
const char *gf_source_reason(int error);

/* Returns the name of the source for messages. */
const char *gf_source_name(const struct gf_source *source);

void gf_sources_free(struct gf_sources *sources);

/*
 * read_job.c: a log may begin with this many damaged lines, because its beginning may have been cut
 * off.
 */
#define GF_FOREIGN_LINES 3

#define GF_FRAMES_MAX 128 /* of an event; the library writes fewer */

/* How much input of each kind was read. */
struct gf_read_counts {
    size_t logs, reports, empty; /* sources */
    size_t doctors;              /* files that `gpufeed doctor --json` wrote */
    size_t foreign;              /* other files in the folders that operands name */
    size_t repeated;             /* files that were given more than once, and read once */
    uint64_t lines, damaged, bytes;
    char first_damaged[512]; /* "PATH:LINE"; "" if no line is damaged */
};

/*
 * Reads all sources. Returns false if a source cannot be read, or if a file that an operand names
 * is neither a log nor a report; each such source is named on standard error. Shows the progress on
 * a terminal.
 */
bool gf_read_job(const struct gf_sources *sources, struct gf_job *job, struct gf_read_counts *ret);

/* Whether the file exists, and is a log, a report or the doctor's findings. */
bool gf_read_job_takes(const char *path);

/*
 * process_report.c: the most bytes of a report, many times those of a real one. While it is parsed, a report takes up to
 * 90 times its size in memory.
 */
#define GF_REPORT_MOST (4 << 20)

/*
 * Of all logs and reports together, and of PyTorch's trace. A file of a FUSE file system, or one whose
 * extents are shared, takes no space, however many bytes it has.
 */
#define GF_BYTES_MOST (UINT64_C(256) << 30)

/*
 * Adds the reports in a text to the list. A file contains one report; the output of a pipe may
 * contain several in sequence. Returns the number of reports; 0 if the text is not a report, or is
 * damaged.
 */
unsigned gf_report_file_add(json_t *reports, struct gf_span text);

/* Whether the text begins like a report or like the doctor's output, and may be cut off. */
bool gf_report_file_begins(struct gf_span text);

/*
 * Adds the output of `gpufeed doctor --json`, which was read from a file. Returns false if the text
 * is something else.
 */
bool gf_report_file_add_doctor(struct gf_job *job, struct gf_span text, const char *file);

/*
 * Called after all logs were read. Assigns each report to the process that has the report's pid,
 * program and rank, and whose log overlaps the report's time. If there is no such process, adds
 * one.
 */
void gf_report_file_join(struct gf_job *job, json_t *reports);

/* Returns the member that a path names, such as "transfers.ring.bytes"; NULL if it is absent. */
const json_t *gf_report_at(const json_t *report, const char *path);
/* Returns the number at a path; 0 if it is absent, below 0 or impossible. */
double gf_report_number(const json_t *report, const char *path);
/* Returns the rank of the process; -1 if it has none. */
int64_t gf_report_rank(const json_t *report);
/*
 * Return the text at a path, "" if absent, or a name from a report, made safe for a terminal and cut to
 * less than `size` bytes, by gf_text.
 */
const char *gf_report_text(const json_t *report, const char *path, size_t size);
const char *gf_report_plain(const char *name, size_t size);

/* Copies the text at a path into a member. */
#define GF_REPORT_COPY(member, report, path)                                                       \
    snprintf(member, sizeof(member), "%s", gf_report_text(report, path, sizeof(member)))

/* frame_name.c: finds function names in ELF files. A log stores native frames as an object and an offset. */

struct gf_elfsym;

/*
 * Opens an ELF file whose build id, in hexadecimal, is build_id. Returns NULL if
 * the file is missing, has another build id or is not ELF.
 */
struct gf_elfsym *gf_elfsym_open(const char *path, const char *build_id);
void gf_elfsym_close(struct gf_elfsym *file);

/*
 * Returns the name of the function that covers the offset, and the offset within the function; NULL
 * if no function covers it.
 */
const char *gf_elfsym_function(const struct gf_elfsym *file, uint64_t offset,
                               uint64_t *ret_distance);

/*
 * Texts for a log's native and Python frames. Executables and libraries are opened once and stay
 * open. Only one thread may use this module.
 */

/* Reads the modules of an event, before the names of its frames. */
void gf_frame_modules(struct gf_span modules);

/*
 * Writes the name of a native frame, such as "function+0x1a (file)". In the log, the frame "3+1a2b"
 * means offset 0x1a2b in object 3 of the event's modules. Writes "file+0x1a2b" if the file is
 * missing, has no build id or another one, or has no name for the offset. with_distance = false omits
 * "+0x1a", so that all frames of a function have the same text. Control characters are replaced.
 * Returns false if the frame is damaged. ret_path receives the object's path; it may be NULL.
 */
bool gf_frame_name_of(struct gf_span frame, bool with_distance, char *buf, size_t size,
                      char ret_path[1024]);

void gf_frame_name_end(void);

/* A Python frame of a log. Longer texts are cut. */
struct gf_python_text {
    char file[1024], function[512];
    int64_t line;
};

/* Reads a Python frame of a log. Missing members are "" or 0. Control characters are replaced. */
void gf_frame_python(struct gf_span frame, struct gf_python_text *ret);
