/* spark_module.c: leafd_spark._decode, the module by which the Spark data source reaches native/arrow. It has one
 * function for what is read, four for what is published, and no state, checks that each buffer is as large as it has
 * to be, and knows nothing of the rest of leafd: it goes to a Spark cluster without it.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>

#include "arrow/decode.h"
#include "arrow/publish.h"

/* Numbers of the caller's that stay from call to call; agent/leafd_spark/source/decoder.py has the same list. */
enum {
    STATE_ROWS_MAX,
    STATE_ROWS,
    STATE_FIELDS_MAX,
    STATE_FIELDS,
    STATE_BYTES_MAX,
    STATE_BYTES,
    STATE_CONSUMER_SEQUENCE,
    STATE_PENDING,
    STATE_LAST,
    STATE_DELIVERIES,
    STATE_WITH_HEADERS,
    STATE_SOURCED,
    STATE_COUNT
};

enum {
    COLUMN_SEQUENCE,
    COLUMN_NANOSECONDS,
    COLUMN_ORIGIN_SEQUENCE,
    COLUMN_ORIGIN_VALID,
    COLUMN_FIELD_ENDS,
    COLUMN_TEXTS, /* from here on two each: ends, bytes */
    TEXTS = 6,
    COLUMN_COUNT = COLUMN_TEXTS + 2 * TEXTS
};

static bool room_for(const Py_buffer *buffer, uint64_t count, uint64_t size) {
    return (uint64_t)buffer->len >= count * size;
}

/* The table over the caller's buffers. false: one of them is too small, or a number cannot be. */
static bool table_over(const Py_buffer *column, const int64_t *state, arrow_table_t *table) {
    for (int i = 0; i <= STATE_LAST; i++) {
        if (state[i] < 0) {
            return false;
        }
    }
    if (state[STATE_ROWS_MAX] > INT32_MAX || state[STATE_FIELDS_MAX] > INT32_MAX
        || state[STATE_ROWS] > state[STATE_ROWS_MAX] || state[STATE_FIELDS] > state[STATE_FIELDS_MAX]) {
        return false;
    }
    uint64_t rows = (uint64_t)state[STATE_ROWS_MAX], fields = (uint64_t)state[STATE_FIELDS_MAX];
    if (!room_for(&column[COLUMN_SEQUENCE], rows, 8) || !room_for(&column[COLUMN_NANOSECONDS], rows, 8)
        || !room_for(&column[COLUMN_ORIGIN_SEQUENCE], rows, 8)
        || !room_for(&column[COLUMN_ORIGIN_VALID], (rows + 7) / 8, 1)
        || !room_for(&column[COLUMN_FIELD_ENDS], rows + 1, 4)) {
        return false;
    }
    *table = (arrow_table_t){
        .rows_max = (uint32_t)rows,
        .rows = (uint32_t)state[STATE_ROWS],
        .fields_max = (uint32_t)fields,
        .fields = (uint32_t)state[STATE_FIELDS],
        .sequence = column[COLUMN_SEQUENCE].buf,
        .nanoseconds = column[COLUMN_NANOSECONDS].buf,
        .origin_sequence = column[COLUMN_ORIGIN_SEQUENCE].buf,
        .origin_valid = column[COLUMN_ORIGIN_VALID].buf,
        .field_ends = column[COLUMN_FIELD_ENDS].buf,
        .sourced = state[STATE_SOURCED] != 0,
    };
    arrow_text_t *text[TEXTS] = {&table->subject,    &table->data, &table->origin_stream,
                                 &table->origin_api, &table->key,  &table->value};
    for (int i = 0; i < TEXTS; i++) {
        const Py_buffer *ends = &column[COLUMN_TEXTS + 2 * i], *bytes = &column[COLUMN_TEXTS + 2 * i + 1];
        bool of_field = text[i] == &table->key || text[i] == &table->value;
        if (!room_for(ends, (of_field ? fields : rows) + 1, 4)) {
            return false;
        }
        *text[i] = (arrow_text_t){
            .ends = ends->buf,
            .at = bytes->buf,
            .size = bytes->len > INT32_MAX ? INT32_MAX : (uint32_t)bytes->len,
        };
        int32_t used = text[i]->ends[of_field ? table->fields : table->rows];
        if (used < 0 || (uint32_t)used > text[i]->size) {
            return false;
        }
    }
    return true;
}

/* Takes rows and notes how far it came. */
static PyObject *decode_into(const Py_buffer *received, Py_ssize_t start, Py_ssize_t end, const Py_buffer *stream,
                             const Py_buffer *column, Py_buffer *numbers) {
    int64_t *state = numbers->buf;
    arrow_table_t table;
    if (numbers->len < (Py_ssize_t)(STATE_COUNT * sizeof(int64_t)) || start < 0 || end < start || end > received->len
        || end - start > INT32_MAX || stream->len > INT32_MAX || !table_over(column, state, &table)) {
        PyErr_SetString(PyExc_ValueError, "a buffer is too small, or a number cannot be");
        return NULL;
    }
    decode_want_t want = {
        .deliveries = state[STATE_DELIVERIES] != 0,
        .with_headers = state[STATE_WITH_HEADERS] != 0,
        .stream = bytes_of(stream->buf, (uint32_t)stream->len),
        .bytes_max = (uint64_t)state[STATE_BYTES_MAX],
        .last = state[STATE_LAST],
    };
    decode_progress_t progress = {
        .bytes = (uint64_t)state[STATE_BYTES],
        .consumer_sequence = state[STATE_CONSUMER_SEQUENCE],
        .pending = state[STATE_PENDING],
    };
    uint32_t taken;
    bytes_t bytes = bytes_of((const uint8_t *)received->buf + start, (uint32_t)(end - start));
    decode_verdict_t verdict = decode(bytes, &want, &progress, &table, &taken);
    state[STATE_ROWS] = table.rows;
    state[STATE_FIELDS] = table.fields;
    state[STATE_BYTES] = (int64_t)progress.bytes;
    state[STATE_CONSUMER_SEQUENCE] = progress.consumer_sequence;
    state[STATE_PENDING] = progress.pending;
    state[STATE_SOURCED] = table.sourced;
    return Py_BuildValue("(in)", (int)verdict, start + (Py_ssize_t)taken);
}

/* decode(received, start, end, stream, columns, state) -> (verdict, position) */
static PyObject *module_decode(PyObject *self, PyObject *arguments) {
    (void)self;
    Py_buffer received, stream, numbers, column[COLUMN_COUNT];
    Py_ssize_t start, end;
    PyObject *columns, *answer = NULL;
    if (!PyArg_ParseTuple(arguments, "y*nny*O!w*", &received, &start, &end, &stream, &PyTuple_Type, &columns,
                          &numbers)) {
        return NULL;
    }
    int count = 0;
    if (PyTuple_Size(columns) != COLUMN_COUNT) {
        PyErr_SetString(PyExc_ValueError, "not as many columns as there are");
        goto done;
    }
    for (; count < COLUMN_COUNT; count++) {
        PyObject *one = PyTuple_GetItem(columns, count);
        if (PyObject_GetBuffer(one, &column[count], PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) != 0) {
            goto done;
        }
    }
    answer = decode_into(&received, start, end, &stream, column, &numbers);
done:
    while (count > 0) {
        PyBuffer_Release(&column[--count]);
    }
    PyBuffer_Release(&received);
    PyBuffer_Release(&stream);
    PyBuffer_Release(&numbers);
    return answer;
}

/* --- what is published -------------------------------------------------- */

enum { SUBJECT, LINES, DATA, IDS, PUBLISHED_TEXTS };

/* The buffers of columns to publish, two each: ends, bytes. The ids may be missing. */
typedef struct given {
    Py_buffer buffer[2 * PUBLISHED_TEXTS];
    int held;
    publish_text_t text[PUBLISHED_TEXTS];
} given_t;

static void given_release(given_t *given) {
    while (given->held > 0) {
        PyBuffer_Release(&given->buffer[--given->held]);
    }
}

/* Whether elements lie one behind the other, all of them in the column's bytes. */
static bool text_over(const Py_buffer *ends, const Py_buffer *bytes, uint32_t count, publish_text_t *text) {
    if (!room_for(ends, (uint64_t)count + 1, sizeof(int32_t))) {
        return false;
    }
    *text = (publish_text_t){.ends = ends->buf, .at = bytes->buf};
    if (text->ends[0] < 0) {
        return false;
    }
    for (uint32_t row = 0; row < count; row++) {
        if (text->ends[row + 1] < text->ends[row]) {
            return false;
        }
    }
    return text->ends[count] <= bytes->len;
}

static bool given_take(PyObject *columns, Py_ssize_t count, given_t *given) {
    Py_ssize_t size = PyTuple_Size(columns);
    if ((size != 2 * IDS && size != 2 * PUBLISHED_TEXTS) || count < 0 || count > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "not as many columns as there are");
        return false;
    }
    for (; given->held < size; given->held++) {
        PyObject *one = PyTuple_GetItem(columns, given->held);
        if (PyObject_GetBuffer(one, &given->buffer[given->held], PyBUF_C_CONTIGUOUS) != 0) {
            return false;
        }
    }
    for (int i = 0; i < size / 2; i++) {
        if (!text_over(&given->buffer[2 * i], &given->buffer[2 * i + 1], (uint32_t)count, &given->text[i])) {
            PyErr_SetString(PyExc_ValueError, "a column is too small for its rows");
            return false;
        }
    }
    return true;
}

static publish_rows_t given_rows(const given_t *given, Py_ssize_t count) {
    return (publish_rows_t){(uint32_t)count, given->text[SUBJECT], given->text[LINES], given->text[DATA]};
}

/* digests(count, columns) -> bytes, BLAKE2_DIGEST a row */
static PyObject *module_digests(PyObject *self, PyObject *arguments) {
    (void)self;
    Py_ssize_t count;
    PyObject *columns, *answer = NULL;
    if (!PyArg_ParseTuple(arguments, "nO!", &count, &PyTuple_Type, &columns)) {
        return NULL;
    }
    given_t given = {.held = 0};
    if (given_take(columns, count, &given)) {
        publish_rows_t rows = given_rows(&given, count);
        answer = PyBytes_FromStringAndSize(NULL, count * (Py_ssize_t)BLAKE2_DIGEST);
        if (answer != NULL) {
            publish_digests(&rows, (uint8_t *)PyBytes_AsString(answer));
        }
    }
    given_release(&given);
    return answer;
}

/* seen(table, digests) -> bytes of 64-bit numbers: the places of those that are there already */
static PyObject *module_seen(PyObject *self, PyObject *arguments) {
    (void)self;
    Py_buffer table, digests;
    PyObject *answer = NULL;
    if (!PyArg_ParseTuple(arguments, "w*y*", &table, &digests)) {
        return NULL;
    }
    uint64_t slots = (uint64_t)table.len / BLAKE2_DIGEST, count = (uint64_t)digests.len / BLAKE2_DIGEST;
    int64_t *again = count <= INT32_MAX ? PyMem_Malloc((count + 1) * sizeof *again) : NULL;
    if (slots == 0 || (slots & (slots - 1)) != 0 || count >= slots) {
        PyErr_SetString(PyExc_ValueError, "a buffer is too small, or a number cannot be");
    } else if (again == NULL) {
        PyErr_NoMemory();
    } else {
        uint32_t found = publish_seen(table.buf, slots, digests.buf, (uint32_t)count, again);
        answer = PyBytes_FromStringAndSize((const char *)again, (Py_ssize_t)(found * sizeof *again));
    }
    PyMem_Free(again);
    PyBuffer_Release(&table);
    PyBuffer_Release(&digests);
    return answer;
}

/* The frames and where each begins, as bytes and as bytes of 64-bit numbers. */
static PyObject *frames_of(const publish_rows_t *rows, const publish_ids_t *ids, const publish_line_t *line) {
    Py_ssize_t size = ((Py_ssize_t)rows->count + 1) * (Py_ssize_t)sizeof(int64_t);
    PyObject *bounds = PyBytes_FromStringAndSize(NULL, size);
    if (bounds == NULL) {
        return NULL;
    }
    int64_t *bound = (int64_t *)(void *)PyBytes_AsString(bounds);
    publish_measure(rows, ids, line, bound);
    PyObject *frames = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bound[rows->count]);
    if (frames == NULL) {
        Py_DecRef(bounds);
        return NULL;
    }
    publish_write(rows, ids, line, (uint8_t *)PyBytes_AsString(frames));
    return Py_BuildValue("(NN)", frames, bounds);
}

/* frames(count, columns, scope, digests, counts, inbox, first) -> (frames, bounds)
 *
 * With a column of ids, scope, digests and counts are empty; without, counts may be. */
static PyObject *module_frames(PyObject *self, PyObject *arguments) {
    (void)self;
    Py_ssize_t count;
    long long first;
    PyObject *columns, *answer = NULL;
    Py_buffer scope, digests, counts, inbox;
    if (!PyArg_ParseTuple(arguments, "nO!y*y*y*y*L", &count, &PyTuple_Type, &columns, &scope, &digests, &counts, &inbox,
                          &first)) {
        return NULL;
    }
    given_t given = {.held = 0};
    if (!given_take(columns, count, &given)) {
        goto done;
    }
    bool with_ids = given.held > 2 * IDS;
    if (first < 0 || scope.len > INT32_MAX || inbox.len > INT32_MAX
        || (!with_ids && !room_for(&digests, (uint64_t)count, BLAKE2_DIGEST))
        || (counts.len > 0 && !room_for(&counts, (uint64_t)count, sizeof(int64_t)))) {
        PyErr_SetString(PyExc_ValueError, "a buffer is too small, or a number cannot be");
        goto done;
    }
    publish_rows_t rows = given_rows(&given, count);
    publish_ids_t ids = {
        .text = with_ids ? &given.text[IDS] : NULL,
        .scope = bytes_of(scope.buf, (uint32_t)scope.len),
        .digests = digests.buf,
        .counts = counts.len > 0 ? counts.buf : NULL,
    };
    publish_line_t line = {bytes_of(inbox.buf, (uint32_t)inbox.len), (uint64_t)first};
    answer = frames_of(&rows, &ids, &line);
done:
    given_release(&given);
    PyBuffer_Release(&scope);
    PyBuffer_Release(&digests);
    PyBuffer_Release(&counts);
    PyBuffer_Release(&inbox);
    return answer;
}

/* acknowledged(received, start, end, prefix, numbers) -> (position, count) */
static PyObject *module_acknowledged(PyObject *self, PyObject *arguments) {
    (void)self;
    Py_buffer received, prefix, numbers;
    Py_ssize_t start, end;
    PyObject *answer = NULL;
    if (!PyArg_ParseTuple(arguments, "y*nny*w*", &received, &start, &end, &prefix, &numbers)) {
        return NULL;
    }
    if (start < 0 || end < start || end > received.len || end - start > INT32_MAX || prefix.len > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "a buffer is too small, or a number cannot be");
    } else {
        size_t room = (size_t)numbers.len / sizeof(int64_t);
        uint32_t taken;
        uint32_t count = publish_acknowledged(bytes_of((const uint8_t *)received.buf + start, (uint32_t)(end - start)),
                                              bytes_of(prefix.buf, (uint32_t)prefix.len), numbers.buf,
                                              room > INT32_MAX ? INT32_MAX : (uint32_t)room, &taken);
        answer = Py_BuildValue("(nI)", start + (Py_ssize_t)taken, count);
    }
    PyBuffer_Release(&received);
    PyBuffer_Release(&prefix);
    PyBuffer_Release(&numbers);
    return answer;
}

static PyMethodDef METHODS[] = {
    {"decode", module_decode, METH_VARARGS, "Rows out of received bytes; leafd_spark.source.decoder says more."},
    {"digests", module_digests, METH_VARARGS, "What ids of rows are made of; leafd_spark.sink.frames says more."},
    {"seen", module_seen, METH_VARARGS, "Which digests were there before; leafd_spark.sink.digests says more."},
    {"frames", module_frames, METH_VARARGS, "Publishes of rows; leafd_spark.sink.frames says more."},
    {"acknowledged", module_acknowledged, METH_VARARGS, "What was stored; leafd_spark.sink.frames says more."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_decode",
    .m_size = 0,
    .m_methods = METHODS,
};

PyMODINIT_FUNC PyInit__decode(void);

PyMODINIT_FUNC PyInit__decode(void) {
    return PyModule_Create(&MODULE);
}
