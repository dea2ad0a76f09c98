/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fmt.h"

struct spec {
    int width;
    int precision; /* -1 if not given */
    bool left;
    bool zero;
};

static void put(struct gf_textbuf *out, char c)
{
    if (out->at + 1 < out->size)
        out->buf[out->at] = c;
    out->at++;
}

static void put_field(struct gf_textbuf *out, const struct spec *spec, const char *text,
                      size_t length)
{
    const size_t width = spec->width > 0 ? (size_t)spec->width : 0;
    const size_t fill = width > length ? width - length : 0;

    for (size_t i = 0; !spec->left && i < fill; i++)
        put(out, spec->zero ? '0' : ' ');
    for (size_t i = 0; i < length; i++)
        put(out, text[i]);
    for (size_t i = 0; spec->left && i < fill; i++)
        put(out, ' ');
}

static void put_number(struct gf_textbuf *out, struct spec *spec, uint64_t value, unsigned base,
                       bool negative)
{
    char digits[32];
    size_t at = sizeof(digits);

    do {
        digits[--at] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value);
    if (negative && spec->zero && !spec->left) {
        put(out, '-');
        spec->width--;
    } else if (negative) {
        digits[--at] = '-';
    }
    put_field(out, spec, digits + at, sizeof(digits) - at);
}

static void put_string(struct gf_textbuf *out, const struct spec *spec, const char *text)
{
    struct spec plain = *spec;
    plain.zero = false;
    if (!text)
        text = "(null)";
    put_field(out, &plain, text,
              spec->precision >= 0 ? strnlen(text, (size_t)spec->precision) : strlen(text));
}

static const char *read_count(const char *p, int *ret, va_list *args)
{
    if (*p == '*') {
        *ret = va_arg(*args, int);
        return p + 1;
    }
    for (; *p >= '0' && *p <= '9'; p++)
        *ret = *ret * 10 + (*p - '0');
    return p;
}

static const char *read_spec(const char *p, struct spec *spec, va_list *args)
{
    for (;; p++) {
        if (*p == '-')
            spec->left = true;
        else if (*p == '0')
            spec->zero = true;
        else
            break;
    }
    p = read_count(p, &spec->width, args);
    if (*p != '.')
        return p;
    spec->precision = 0;
    return read_count(p + 1, &spec->precision, args);
}

/* So the modifiers l, ll and z mean the same. */
_Static_assert(sizeof(long) == sizeof(long long) && sizeof(long) == sizeof(size_t), "LP64");

static void put_error(struct gf_textbuf *out, const struct spec *spec, int error)
{
    const char *text = strerrordesc_np(error); /* strerror translates and may allocate */
    if (text) {
        put_string(out, spec, text);
    } else {
        put_string(out, spec, "error ");
        put_number(out, &(struct spec){.precision = -1}, (uint64_t)error, 10, false);
    }
}

static const char *put_conversion(struct gf_textbuf *out, const char *percent, va_list *args,
                                  int error)
{
    struct spec spec = {.precision = -1};
    const char *p = read_spec(percent + 1, &spec, args);
    const bool is_long = *p == 'l' || *p == 'z';

    p += *p == 'z' ? 1 : strspn(p, "l");
    switch (*p) {
    case 's':
        put_string(out, &spec, va_arg(*args, const char *));
        break;
    case 'c': {
        const char c = (char)va_arg(*args, int);
        put_field(out, &spec, &c, 1);
        break;
    }
    case 'd':
    case 'i': {
        const int64_t value = is_long ? va_arg(*args, long) : va_arg(*args, int);
        put_number(out, &spec, value < 0 ? -(uint64_t)value : (uint64_t)value, 10, value < 0);
        break;
    }
    case 'u':
    case 'x': {
        const uint64_t value = is_long ? va_arg(*args, unsigned long) : va_arg(*args, unsigned);
        put_number(out, &spec, value, *p == 'u' ? 10 : 16, false);
        break;
    }
    case 'p':
        put(out, '0');
        put(out, 'x');
        put_number(out, &spec, (uintptr_t)va_arg(*args, void *), 16, false);
        break;
    case 'm':
        put_error(out, &spec, error);
        break;
    case '%':
        put(out, '%');
        break;
    /*
     * An unknown conversion is copied as written. Its argument is not read, because its type is
     * unknown. So later conversions read the wrong arguments.
     */
    default:
        put(out, '%');
        return percent + 1;
    }
    return p + 1;
}

int gf_vfmt(char *buf, size_t size, const char *format, va_list args)
{
    const int error = errno;
    struct gf_textbuf out = {.buf = buf, .size = size};
    va_list copy;

    va_copy(copy, args);
    for (const char *p = format; *p;) {
        if (*p == '%')
            p = put_conversion(&out, p, &copy, error);
        else
            put(&out, *p++);
    }
    va_end(copy);
    if (size)
        buf[gf_min(out.at, size - 1)] = '\0';
    errno = error;
    return (int)out.at;
}

int gf_fmt(char *buf, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int length = gf_vfmt(buf, size, format, args);
    va_end(args);
    return length;
}

void gf_say(struct gf_textbuf *words, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (words->at < words->size)
        words->at += (size_t)gf_vfmt(words->buf + words->at, words->size - words->at, format, args);
    va_end(args);
}

void gf_say_bytes(struct gf_textbuf *words, uint64_t bytes)
{
    const uint64_t mib = bytes >> 20;
    if (mib >= 10240)
        gf_say(words, "%lu.%lu GiB", mib / 1024, mib % 1024 * 10 / 1024);
    else if (mib)
        gf_say(words, "%lu MiB", mib);
    else
        gf_say(words, "%lu KiB", bytes >> 10);
}

unsigned gf_utf8_decode(const char *text, uint32_t *ret)
{
    const unsigned char *at = (const unsigned char *)text;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned length = *at < 0x80 ? 1 : *at >> 5 == 6 ? 2 : *at >> 4 == 14 ? 3 : 4;

    *ret = length == 1 ? *at : *at & (0x7fU >> length);
    if (length == 4 && *at >> 3 != 30)
        return 0;
    for (unsigned i = 1; i < length; i++) {
        if (at[i] >> 6 != 2) /* also ends at the final zero byte */
            return 0;
        *ret = *ret << 6 | (at[i] & 0x3f);
    }
    return *ret >= least[length] && *ret <= 0x10ffff && *ret >> 11 != 0x1b ? length : 0;
}

static bool is_plain(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } refused[] = {{0, 0x1f},        {0x7f, 0x9f},     {0x61c, 0x61c},
                   {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069}};

    for (size_t i = 0; i < GF_ARRAY_LEN(refused); i++)
        if (c >= refused[i].first && c <= refused[i].last)
            return false;
    return true;
}

/*
 * Finds the first character that is not plain. Returns its start and stores its length in bytes.
 * Returns NULL if all characters are plain.
 */
static const char *find_not_plain(const char *text, unsigned *ret_length)
{
    uint32_t c;

    for (; *text; text += *ret_length) {
        *ret_length = gf_utf8_decode(text, &c);
        if (*ret_length && is_plain(c))
            continue;
        *ret_length = gf_max(*ret_length, 1U);
        return text;
    }
    return NULL;
}

bool gf_is_plain_text(const char *text)
{
    unsigned length;
    return !find_not_plain(text, &length);
}

char *gf_plain_text(char *text)
{
    unsigned length;

    for (const char *at = text; (at = find_not_plain(at, &length)); at += length)
        memset(text + (at - text), '?', length);
    return text;
}
