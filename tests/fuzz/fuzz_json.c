/* SPDX-License-Identifier: Apache-2.0 */
/* Names and paths may hold any byte. Each becomes one JSON string, which must be UTF-8. */
#include "fuzz.h"

#include "base/json.h"

/* Skips one character of a string, by RFC 8259 and RFC 3629. Returns NULL if it is not valid. */
static const unsigned char *skip(const unsigned char *p)
{
    static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};

    if (*p == '\\') {
        if (p[1] == '"' || p[1] == '\\')
            return p + 2;
        return p[1] == 'u' && strspn((const char *)p + 2, "0123456789abcdef") >= 4 ? p + 6 : NULL;
    }
    if (*p < 0x80)
        return *p >= 0x20 && *p != '"' ? p + 1 : NULL;
    const unsigned length = *p >= 0xf0 ? 4 : *p >= 0xe0 ? 3 : 2;
    unsigned value = *p & (0x7f >> length);
    for (unsigned i = 1; i < length; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return NULL;
        value = value << 6 | (p[i] & 0x3f);
    }
    const bool surrogate = value >= 0xd800 && value <= 0xdfff;
    return *p < 0xc0 || value < least[length] || value > 0x10ffff || surrogate ? NULL : p + length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = as_text(data, size);
    struct gf_json measure = {0};
    gf_json_text(&measure, NULL, text);
    char *buf = malloc(measure.at + 1);
    struct gf_json json = {.buf = buf, .size = measure.at + 1};
    gf_json_text(&json, NULL, text);
    CHECK(gf_json_close(&json) && strlen(buf) == measure.at && *buf == '"');
    const unsigned char *p = (const unsigned char *)buf + 1;
    while (*p != '"') {
        p = skip(p);
        CHECK(p);
    }
    CHECK(!p[1]);
    free(buf);
    free(text);
    return 0;
}
