package query

import (
	"encoding/json"
	"errors"
	"slices"
)

// turns passes the tables of a result to a Reader one after another, each with all its rows. Rows of a
// later table are kept until its turn comes, and those of a progressive table until it is complete.
type turns struct {
	to    Reader
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

// begin adds a table to the queue of tables for the Reader, and announces it to the Reader if it is
// the first. The rows of a progressive table may be replaced later, so they are kept until it has
// ended.
func (q *turns) begin(t *Table, progressive bool) (*turn, error) {
	n := &turn{t: t, progressive: progressive, rows: heldRows{of: &q.of}}
	q.queue = append(q.queue, n)
	return n, q.advance()
}

// row passes a row of the table n to the Reader, or keeps a copy if earlier tables have not ended
// or the rows of n may still be replaced.
func (q *turns) row(n *turn, row []json.RawMessage) error {
	n.told++
	if n.begun {
		n.given++
		return q.to.Row(n.t, row)
	}
	return n.rows.add(row)
}

// replace drops the rows of the table n that came so far. It returns errReplaced if the Reader has
// some of them already. Only the rows of a progressive table are kept until it has ended.
func (q *turns) replace(n *turn) error {
	n.told = 0
	n.rows.clear()
	if n.given > 0 {
		return errReplaced
	}
	return nil
}

// end marks a table as complete and passes on what has its turn then.
func (q *turns) end(n *turn) error {
	n.ended = true
	return q.advance()
}

// advance announces the first table of the queue to the Reader and passes on its kept rows. If the
// table has ended, advance removes it and goes on with the next one. A progressive table has to end
// first, since its rows may be replaced.
func (q *turns) advance() error {
	for len(q.queue) > 0 {
		n := q.queue[0]
		if !n.begun && (n.ended || !n.progressive) {
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
