package emulator

import (
	"bytes"
	"strings"
)

// Damage replaces the visible rows of a table of lines: each row is stored copies(row) times, so 0
// removes it and 2 doubles it. Each copy keeps the time at which the row was stored. It is for tests
// of code that has to find lost and doubled rows. Rows that are stored while it runs, or are not
// visible yet, are lost.
func (s *Server) Damage(database, table string, copies func(Row) int) {
	var chunks []*chunk
	for _, row := range s.Rows(database, table) {
		n := len(chunks) - 1
		if n < 0 || chunks[n].origin != row.origin {
			chunks = append(chunks, &chunk{origin: row.origin, body: []byte{}})
			n++
		}
		c := chunks[n]
		for range copies(row) {
			c.body = append(append(c.body, bytes.TrimRight(row.Raw, "\r\n")...), '\n')
			c.rows++
		}
	}
	s.store.replace(database, table, chunks)
}

// replace replaces all rows of a table by those of chunks, whose rawLen it sets, and wakes those who
// wait for a change. The count of requests stays. It does nothing for a table that was never written
// to.
func (st *store) replace(database, table string, chunks []*chunk) {
	st.mu.Lock()
	defer st.mu.Unlock()
	rows := st.tables[tableKey{strings.ToLower(database), table}]
	if rows == nil {
		return
	}
	rows.chunks, rows.name.Rows, rows.name.RawBytes = nil, 0, 0
	for _, c := range chunks {
		c.rawLen = len(c.body)
		rows.chunks = append(rows.chunks, *c)
		rows.name.Rows += c.rows
		rows.name.RawBytes += int64(c.rawLen)
	}
	st.changed.fire()
}
