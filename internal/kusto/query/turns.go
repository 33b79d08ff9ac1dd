package query

import (
	"encoding/json"
	"errors"
	"slices"
)

// turns hands the tables of a result to a Reader one after another, and final
// unless it is live. What comes of a table out of its turn, and of a progressive
// one before it is complete, is held.
type turns struct {
	to    Reader
	live  bool   // progressive rows are handed on as they come
	of    budget // of what is held
	queue []*turn
}

// turn is a table that was begun and is not yet handed on whole. The first of the
// queue is the one that is handed on.
type turn struct {
	t           *Table
	progressive bool // its rows may be replaced
	begun       bool // the Reader knows it
	given       int  // rows the Reader has
	told        int  // rows that arrived and were not replaced
	rows        heldRows
	ended       bool
}

// errReplaced is for rows that were handed on as final ones.
var errReplaced = errors.New("rows of the result are replaced by others, though it is not said to be progressive")

// begin is a new table.
func (q *turns) begin(t *Table, progressive bool) (*turn, error) {
	n := &turn{t: t, progressive: progressive, rows: heldRows{of: &q.of}}
	q.queue = append(q.queue, n)
	return n, q.advance()
}

// row is a row of a table that is not ended.
func (q *turns) row(n *turn, row []json.RawMessage) error {
	n.told++
	if n.begun {
		n.given++
		return q.to.Row(n.t, row)
	}
	return n.rows.add(row)
}

// replace makes the rows of a table void.
func (q *turns) replace(n *turn) error {
	n.told = 0
	n.rows.clear()
	switch {
	case n.given == 0:
		return nil
	case !n.progressive:
		return errReplaced
	}
	n.given = 0
	return q.to.Replace(n.t)
}

// end is the end of a table.
func (q *turns) end(n *turn) error {
	n.ended = true
	return q.advance()
}

// advance hands on what has its turn.
func (q *turns) advance() error {
	for len(q.queue) > 0 {
		n := q.queue[0]
		if !n.begun && (n.ended || !n.progressive || q.live) {
			n.begun = true
			if err := q.to.Table(n.t); err != nil {
				return err
			}
			if err := n.rows.drain(func(row []json.RawMessage) error { n.given++; return q.to.Row(n.t, row) }); err != nil {
				return err
			}
		}
		if !n.ended {
			return nil
		}
		q.queue = slices.Delete(q.queue, 0, 1)
	}
	return nil
}

// full reports whether no further table can be begun.
func (q *turns) full() bool { return len(q.queue) >= maxTables }
