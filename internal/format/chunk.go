package format

import (
	"encoding/binary"

	"kusto-agent/internal/record"
)

// Chunk is what one Scan found. The caller reuses it: everything it points to
// is valid until the next Scan with the same Chunk.
type Chunk struct {
	// Body is the accepted records, whole and each ended by its line end. It
	// is a part of the scanned data: where nothing between its records had to
	// go it is untouched, else the records were moved together in place. Only
	// where Copied says so it is memory of the chunk.
	Body []byte
	// Copied says that Body does not lie in the scanned data: newlines or
	// fields had to be added where the data has no room for them, or it was
	// decoded or parsed.
	Copied bool
	// Pieces are the ranges of the data, as it was, that form Body in order.
	Pieces []Piece
	// Lens has, as in record.Payload, the source length of each record as an
	// unsigned varint. Nil: every record has in Body the length it had in the
	// data. With Options.Parse it is never nil.
	Lens []byte
	// Records is the number of records in Body. In Avro it is told by blocks.
	Records int
	// Group is the number of fields each record in Body has; 0 for formats
	// without fields and where records are not checked. In Avro it stands for
	// the header.
	Group int

	Blank       int // blank lines filtered
	Header      int // header records filtered
	BOM         int // bytes of a byte order mark filtered
	NULs        int // bytes of NULs between records filtered
	NULsAt      int // where in the data the first of them is
	InvalidUTF8 int // records in Body that are not valid UTF-8
	Misfits     int // records in Body that were not as Options.Parse says, sent as they were
	Unmatched   int // records filtered for that

	// Filtered are the records that Options.Rules leave out, by the index of the
	// reason; nil: there are none.
	Filtered []int

	// Changed are the records of Body that Options.Rules change, by the index of the
	// rule; nil: there are none.
	Changed []int

	// Rejected are the records that must not be sent. Their Data is as it is in the
	// file, also where rules withhold it.
	Rejected []Reject

	// Consumed is the number of bytes accounted for: in Pieces, filtered or
	// rejected. It is where a record begins, and data from there on is
	// untouched.
	Consumed int

	// Prefix comes before the body in whatever it becomes a part of, once:
	// the header of an Avro file. Bodies of different prefixes, and so of
	// different groups, do not join. It belongs to the scanner and is valid
	// until its next call.
	Prefix []byte

	// Long says that a record begins at Consumed whose end is not in the data
	// although the data already holds more of it than a record may have, or
	// that nothing of an Avro file can be told apart. The caller skips it with
	// SkipLong.
	Long bool
	// Parts says that it is a message in parts of the log of a container. The
	// caller skips it with SkipParts, which needs its Stream: that is a part of
	// the scanned data.
	Parts  bool
	Stream []byte
	// Skip is how many bytes from Consumed on belong to that record, Indent
	// what else SkipLong must know of it; Reason and Message are why it is
	// rejected.
	Skip, Indent int
	Reason       record.Reason
	Message      string

	base int    // where in the data Body begins
	run  int    // where in Body those records begin that are yet to be moved there
	gap  int    // how far they lie behind; 0: there are none
	data []byte // in which they lie
	lens []byte // memory of Lens
	held []byte // memory of the Data of Rejected
	own  []byte // memory of a copied Body
	text []byte // memory of a decoded file, in which Body may lie
	out  []int  // memory of Filtered
	by   []int  // memory of Changed
}

// Piece is a range of the scanned data that holds whole records.
type Piece struct{ Start, End, Records int }

// Reject is a record that must not be sent. Message says why, for people; of
// the record it quotes one character at most.
type Reject struct {
	Start, End int // in the data, as it was; the line end is included
	Reason     record.Reason
	Message    string
	// Data is a copy of the record, since records moved together may have
	// taken its place: all of it, or its first Options.MaxRecord bytes.
	Data []byte
}

// reset empties the chunk and keeps its memory for the next use.
func (c *Chunk) reset() {
	*c = Chunk{
		Pieces:   c.Pieces[:0],
		Rejected: c.Rejected[:0],
		lens:     c.lens[:0],
		held:     c.held[:0],
		own:      c.own[:0],
		text:     c.text,
		out:      c.out,
		by:       c.by,
	}
}

// room reports whether the chunk can note one more record, which begins at pos in the data: the
// record extends the last piece (range), or there are fewer than record.MaxPieces pieces.
func (c *Chunk) room(pos int) bool {
	n := len(c.Pieces)
	return n < record.MaxPieces || c.Pieces[n-1].End == pos
}

// piece notes that the body has the records of data[start:end]; records is their number. A range
// that begins where the last one ends extends that one.
func (c *Chunk) piece(start, end, records int) {
	if n := len(c.Pieces); n > 0 && c.Pieces[n-1].End == start {
		c.Pieces[n-1].End = end
		c.Pieces[n-1].Records += records
		return
	}
	c.Pieces = append(c.Pieces, Piece{start, end, records})
}

// join appends data[start:end] to the body without copying if it can. As long as the records
// follow each other in data, the body is a part of data. Where bytes between them are left out,
// only the length of the gap is noted, and settle moves the records later. The body never reaches
// start, so no byte is overwritten that was not scanned.
func (c *Chunk) join(data []byte, start, end int) {
	switch {
	case c.Copied:
		c.add(data[start:end]...)
	case c.Records == 0:
		c.base, c.gap = start, 0
		c.Body = data[start:end]
	case c.base+len(c.Body) == start: // directly behind the last record
		c.Body = data[c.base:end]
	default:
		behind := c.base + len(c.Body)
		if behind+c.gap != start { // another gap: close the one before first
			c.settle()
			c.data, c.run, c.gap = data, len(c.Body), start-behind
		}
		c.Body = data[c.base : behind+end-start]
	}
}

// settle moves the records that join appended after a gap in the data next to the records before
// them. The body is not contiguous until then. Many records are moved at once that way.
func (c *Chunk) settle() {
	if c.gap > 0 {
		copy(c.Body[c.run:], c.data[c.base+c.run+c.gap:])
		c.gap = 0
	}
}

// joinLine appends data[start:text], the content of a record that ends at end in data, to the
// body, and a newline if newline is set.
func (c *Chunk) joinLine(data []byte, start, end, text int, newline bool) {
	if newline && text == end && end < len(data) { // in data it would overwrite the next record
		c.detach()
	}
	c.join(data, start, text)
	if newline {
		c.add('\n')
	}
}

// add appends bytes to the body, which need not lie in the scanned data.
func (c *Chunk) add(b ...byte) {
	c.settle()
	c.Body = append(c.Body, b...)
	if c.Copied {
		c.own = c.Body
	}
}

// filter counts a record that rules filter. reason is the index of the reason in Rules.Reasons;
// of is the number of reasons.
func (c *Chunk) filter(reason, of int) { tally(&c.Filtered, &c.out, reason, of) }

// change counts a record that a rule has changed. rule is the index of the rule in Rules.Changes;
// of is the number of rules.
func (c *Chunk) change(rule, of int) { tally(&c.Changed, &c.by, rule, of) }

// tally counts one more at index i of counts; nil: there are none yet, and it gets room for as many
// as of says, in memory.
func tally(counts, memory *[]int, i, of int) {
	if *counts == nil {
		*memory = append((*memory)[:0], make([]int, of)...)
		*counts = *memory
	}
	(*counts)[i]++
}

// detach copies the body out of data, so that it can become longer than its source.
func (c *Chunk) detach() {
	if !c.Copied {
		c.settle()
		c.Copied = true
		c.own = append(c.own[:0], c.Body...)
		c.Body = c.own
	}
}

// length notes that the record that was just appended to the body has source bytes in the file.
// before is the length of the body before it. Lengths are noted only from the first record on
// whose length in the body differs; those of the records before are then added, as they are in
// the body.
func (s *Scanner) length(c *Chunk, before, source int) {
	if c.Lens == nil {
		c.settle()
		for body := c.Body[:before]; len(body) > 0; {
			n := s.measure(body)
			c.lens = binary.AppendUvarint(c.lens, uint64(n))
			body = body[n:]
		}
	}
	c.lens = binary.AppendUvarint(c.lens, uint64(source))
	c.Lens = c.lens
}

// AppendPieces adds the pieces of the chunk, whose data begins at the offset base of the file f.
func (c *Chunk) AppendPieces(all []record.Piece, f record.File, base int64) []record.Piece {
	for _, p := range c.Pieces {
		all = append(all, record.Piece{File: f, Span: record.Span{Start: base + int64(p.Start), End: base + int64(p.End)}, Records: p.Records})
	}
	return all
}
