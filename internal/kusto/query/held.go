package query

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
)

// maxHeld is how much of a result is held at a time, in bytes: rows of a table that
// is not complete, or about which too little is known yet.
const maxHeld = 64 << 20

// budget is how many bytes of a result may still be kept in memory.
type budget struct{ left int }

// heldRows keeps copies of rows in the order in which they came, within a budget.
type heldRows struct {
	chunks [][]byte // of whole rows: the number of cells, then each with its length before it
	of     *budget
}

// The least and the most room of a chunk, but for a row that needs more.
const (
	minChunk = 4 << 10
	maxChunk = 1 << 20
)

// add appends a copy of a row, in the last chunk of memory or in a new one. It fails if a new chunk
// exceeds the budget. Chunks double from minChunk to maxChunk, or are as large as a larger row
// needs.
func (h *heldRows) add(row []json.RawMessage) error {
	size := binary.MaxVarintLen64 * (len(row) + 1)
	for _, cell := range row {
		size += len(cell)
	}
	if n := len(h.chunks); n == 0 || len(h.chunks[n-1])+size > cap(h.chunks[n-1]) {
		room := max(size, min(minChunk<<min(n, 16), maxChunk))
		if room > h.of.left {
			return fmt.Errorf("%w: more than %d MiB of it would have to be held until it is complete", errSize, maxHeld>>20)
		}
		h.of.left -= room
		h.chunks = append(h.chunks, make([]byte, 0, room))
	}
	to := h.chunks[len(h.chunks)-1]
	to = binary.AppendUvarint(to, uint64(len(row)))
	for _, cell := range row {
		to = append(binary.AppendUvarint(to, uint64(len(cell))), cell...)
	}
	h.chunks[len(h.chunks)-1] = to
	return nil
}

// clear drops all rows and returns their memory to the budget.
func (h *heldRows) clear() {
	for _, c := range h.chunks {
		h.of.left += cap(c)
	}
	h.chunks = nil
}

// drain calls f for each row in order and drops the rows as it goes, also if f fails. The row is valid
// until f returns.
func (h *heldRows) drain(f func(row []json.RawMessage) error) error {
	defer h.clear()
	for len(h.chunks) > 0 {
		if err := rowsOf(h.chunks[0], f); err != nil {
			return err
		}
		h.of.left += cap(h.chunks[0])
		h.chunks = h.chunks[1:]
	}
	return nil
}

// each calls f for each row in order and keeps the rows.
func (h *heldRows) each(f func(row []json.RawMessage) error) error {
	for _, c := range h.chunks {
		if err := rowsOf(c, f); err != nil {
			return err
		}
	}
	return nil
}

// rowsOf decodes a chunk of rows as heldRows.add writes them, and calls f for each row. A row is
// the number of its cells, then each cell after its length. The row is valid until f returns.
func rowsOf(chunk []byte, f func(row []json.RawMessage) error) error {
	var row []json.RawMessage
	number := func() int {
		n, size := binary.Uvarint(chunk)
		chunk = chunk[size:]
		return int(n)
	}
	for len(chunk) > 0 {
		row = row[:0]
		for range number() {
			size := number()
			row, chunk = append(row, chunk[:size:size]), chunk[size:]
		}
		if err := f(row); err != nil {
			return err
		}
	}
	return nil
}
