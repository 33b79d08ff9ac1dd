package emulator

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"kusto-agent/emulator/internal/mgmt"
)

// Row is one stored record.
type Row struct {
	// Raw is as it was sent, without its line end (of TXT \n alone), invalid UTF-8
	// replaced by U+FFFD; of Avro it is the record as a JSON object. It is the
	// caller's own.
	Raw []byte

	origin
}

// origin is what all rows of a request have in common.
type origin struct {
	format *format
	shape  *shape
	at     any // time.Time: when they were stored
}

// MarshalJSON returns the row as an object with the table's columns where the schema has some; else
// the JSON object that was sent, or an array of the fields.
func (r Row) MarshalJSON() ([]byte, error) { return r.shape.row(r.format, r.Raw) }

// Fields returns the values of a delimited record, or a line of text as the only one. It returns nil
// for a JSON or Avro record.
func (r Row) Fields() []string {
	if r.format.kind != mgmt.KindCSV {
		return nil
	}
	return r.format.fields(r.Raw)
}

// chunk is one accepted request. It keeps the body as it came, mostly gzip, and
// finds the rows again when they are read: a sink is written far more than read.
type chunk struct {
	body    []byte // nil: discarded
	gzip    bool
	rows    int
	rawLen  int
	visible time.Time
	origin
}

type tableKey struct{ database, table string } // the database in lower case

type tableRows struct {
	name   TableCount // the names; the counts are those of all chunks
	chunks []chunk
}

// store keeps what was accepted, in the order it was.
type store struct {
	mu      sync.Mutex
	tables  map[tableKey]*tableRows
	changed signal
}

// of returns the rows of a table; one that was never written to has none. The caller holds the lock.
func (st *store) of(database, table string) *tableRows {
	return cmp.Or(st.tables[tableKey{strings.ToLower(database), table}], &tableRows{})
}

// commit stores the chunk c, which has all records of one request, in the table t and wakes those who
// wait for a change. With the option Discard it counts the records and drops the body.
func (st *store) commit(t target, c chunk, o Options) {
	if o.Discard {
		c.body = nil
	} else if cap(c.body)-len(c.body) > len(c.body)/4 {
		c.body = bytes.Clone(c.body) // it is kept, so its buffer should not be much larger
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	key := tableKey{strings.ToLower(t.database), t.table}
	rows := st.tables[key]
	if rows == nil {
		rows = &tableRows{name: TableCount{Database: t.database, Table: t.table}}
		st.tables[key] = rows
		o.Logger.Info("the first records for this table were stored", "database", t.database, "table", t.table)
	}
	rows.name.Rows += c.rows
	rows.name.Requests++
	rows.name.RawBytes += int64(c.rawLen)
	rows.chunks = append(rows.chunks, c)
	st.changed.fire()
}

// visible returns the chunks (each has the records of one request) of a table that readers may see by
// now. Chunks become visible in the order in which they were stored.
func (st *store) visible(database, table string) []chunk {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.of(database, table).seen()
}

// seen returns the chunks (each has the records of one request) that readers may see by now. The
// caller holds the lock of the store.
func (t *tableRows) seen() []chunk {
	now, n := time.Now(), len(t.chunks)
	for n > 0 && t.chunks[n-1].visible.After(now) {
		n--
	}
	return t.chunks[:n:n]
}

// count returns the counts of a table. Rows that are not visible yet are not counted, but their
// requests and bytes are. The caller holds the lock of the store.
func (t *tableRows) count() TableCount {
	c := t.name
	for _, hidden := range t.chunks[len(t.seen()):] {
		c.Rows -= hidden.rows
	}
	return c
}

// each decodes the chunk, which has the records of one request, and passes its rows to yield until
// yield returns false. Each invalid byte of a text becomes U+FFFD. The rows belong to yield.
func (c chunk) each(yield func(Row) bool) error {
	body := c.body
	if c.gzip {
		var buf bytes.Buffer
		if err := gunzip(&buf, body, int64(c.rawLen)); err != nil {
			return err
		}
		body = buf.Bytes()
	} else {
		body = bytes.Clone(body)
	}
	if !c.format.binary && !utf8.Valid(body) {
		body = []byte(string([]rune(string(body)))) // one U+FFFD for each invalid byte
	}
	_, err := c.format.records(body, func(raw []byte) bool {
		return yield(Row{Raw: raw, origin: c.origin})
	})
	return err
}

// All yields the visible rows of a table from the skip'th on, in the order they
// were stored. The database is matched in any case.
func (s *Server) All(database, table string, skip int) iter.Seq[Row] {
	return func(yield func(Row) bool) {
		for _, c := range s.store.visible(database, table) {
			if skip >= c.rows {
				skip -= c.rows
				continue
			}
			if c.body == nil { // the option Discard: its rows are counted and not kept
				continue
			}
			more := true
			err := c.each(func(r Row) bool {
				if skip > 0 {
					skip--
					return true
				}
				more = yield(r)
				return more
			})
			if err != nil {
				panic(fmt.Errorf("read accepted body again: %w", err)) // it was checked before it was stored
			}
			if !more {
				return
			}
		}
	}
}

// Rows are all visible rows of a table.
func (s *Server) Rows(database, table string) []Row {
	return slices.Collect(s.All(database, table, 0))
}

// RowCount returns the number of visible rows of a table, discarded ones included.
func (s *Server) RowCount(database, table string) int {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	return s.store.of(database, table).count().Rows
}

// Tables returns the counts of all tables of the schema and of all that were written to, sorted by
// database and table.
func (s *Server) Tables() []TableCount {
	counts := make(map[tableKey]TableCount)
	if schema := s.catalog.Current(); schema != nil {
		for name, db := range schema.Databases {
			for table := range db.Tables {
				counts[tableKey{strings.ToLower(name), table}] = TableCount{Database: name, Table: table}
			}
		}
	}
	s.store.mu.Lock()
	for key, rows := range s.store.tables {
		counts[key] = rows.count()
	}
	s.store.mu.Unlock()
	return slices.SortedFunc(maps.Values(counts), func(a, b TableCount) int {
		return cmp.Or(strings.Compare(a.Database, b.Database), strings.Compare(a.Table, b.Table))
	})
}

var _ json.Marshaler = Row{}

// drop removes all rows of a table.
func (st *store) drop(database, table string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	delete(st.tables, tableKey{strings.ToLower(database), table})
}

// stored returns the number of rows of a table, visible or not; 0 for a table that was never written
// to.
func (st *store) stored(database, table string) int {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.of(database, table).name.Rows
}
