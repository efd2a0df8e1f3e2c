/* report_rows.c: rows of reports for Python, which has the numbers and says what stands around them: no plane is
 * needed. */
#include "text/rows.h"

int64_t plane_rows_write(const row_format_t *format, const uint8_t *records, uint32_t count, const uint8_t *texts,
                         uint32_t texts_size, uint8_t *to, uint64_t room) {
    return rows_write(format, records, count, bytes_of(texts, texts_size), to, room);
}
