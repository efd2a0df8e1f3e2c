/* spark_module.c: leafd.spark._decode, the module by which the Spark data source reaches native/arrow. It has one
 * function and no state, checks that each buffer is as large as it has to be, and knows nothing of the rest of leafd:
 * it goes to a Spark cluster without it.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>

#include "arrow/decode.h"

/* Numbers of the caller's that stay from call to call; agent/leafd/spark/decoder.py has the same list. */
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

static PyMethodDef METHODS[] = {
    {"decode", module_decode, METH_VARARGS, "Rows out of received bytes; leafd.spark.decoder says more."},
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
