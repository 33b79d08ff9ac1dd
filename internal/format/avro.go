package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
)

// Avro: an object container file, as the Avro specification defines it, is a
// header and then blocks, each with the number of its records, their size in
// bytes, the records as the codec of the file wrote them, and the sync marker
// that the header names. Here only the frames are read: nothing is decoded,
// and what is sent is the bytes of whole blocks behind the bytes of the header
// they belong to.
//
// A block is sent or rejected as a whole. One that does not end in the sync
// marker, or whose numbers make no sense, is rejected up to and with the next
// sync marker, where reading goes on (a marker that is damaged itself costs the
// block behind it too); so is one with more than MaxRecord
// bytes, and one that with its header is more than MaxBody allows: blocks are
// never made smaller, since that would mean to decode them. A file whose
// header is not sound is rejected as a whole. Blocks without a record are
// filtered.

// syncLen is the length of a sync marker.
const syncLen = 16

// header is that of an Avro file. Without bytes there is none.
type header struct {
	bytes []byte // the sync marker comes last
	group int
}

var errOpen = errors.New("ends beyond the data")

// Prepare reads the beginning of file, before the scanner reads from its middle: the header of an
// Avro file, or the column names that rules use. The calls that follow must be for this file.
// Other formats need nothing. It fails only if the file cannot be read; a bad Avro header is no
// error here, but Scan then rejects the blocks.
func (s *Scanner) Prepare(file io.ReaderAt) error {
	if s.opt.Rules.Named() {
		return s.prepareHeader(file)
	}
	if !s.spec.NeedsHead {
		return nil
	}
	b := s.head.bytes[:0]
	s.head = header{bytes: b}
	for size := 4 << 10; ; size *= 4 {
		size = min(size, s.opt.MaxRecord)
		if cap(b) < size {
			b = make([]byte, size)
		}
		n, err := file.ReadAt(b[:size], 0)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read Avro header: %w", err)
		}
		length, bad := headerLen(b[:n])
		if bad == nil {
			s.head = header{b[:length], groupOf(b[:length])}
			return nil
		}
		if !errors.Is(bad, errOpen) || n < size || size == s.opt.MaxRecord { // bad, or not complete
			return nil
		}
	}
}

// beginBlocks consumes the header at the beginning of an Avro file. It returns false if the
// header is not complete yet, or is bad. No block can be read without the header, so a bad one
// makes the whole rest of the file one bad record.
func (s *Scanner) beginBlocks(data []byte, last bool, c *Chunk) bool {
	s.head = header{bytes: s.head.bytes[:0]}
	n, err := headerLen(data[:min(len(data), s.opt.MaxRecord)])
	switch {
	case len(data) == 0:
		return false
	case err == nil:
		b := append(s.head.bytes, data[:n]...)
		s.head = header{b, groupOf(b)}
		c.Consumed = n
		return true
	case !errors.Is(err, errOpen):
		s.fault = malformed(nowhere, "not the header of an Avro file: "+err.Error())
	case len(data) >= s.opt.MaxRecord:
		s.fault = s.tooLong("the header of the file is longer than")
	case last:
		s.fault = malformed(nowhere, "the file ends in its header")
	default:
		return false
	}
	if last {
		s.reject(c, data, cut{n: len(data)})
		c.Consumed = len(data)
		return false
	}
	s.long(c, data, cut{kind: endless, n: len(data)})
	return false
}

// groupOf returns a hash of an Avro header, which is not 0. Records under different headers
// cannot share a payload, so their groups differ.
func groupOf(header []byte) int {
	h := fnv.New64a()
	h.Write(header)
	return int(h.Sum64()>>1) | 1
}

// magic is what an object container file begins with.
const magic = "Obj\x01"

// headerLen returns the length of the header that b begins with: magic, a map
// of bytes that has a schema, and the sync marker. It fails with errOpen where
// b holds a part of it only.
func headerLen(b []byte) (int, error) {
	if n := min(len(b), len(magic)); string(b[:n]) != magic[:n] {
		return 0, errors.New("it does not begin with Obj and 1")
	}
	if len(b) < len(magic) {
		return 0, errOpen
	}
	r := reader{b: b, i: len(magic)}
	schema := false
	for {
		n := r.long()
		if n < 0 {
			n = -n
			r.long() // the size of what follows in bytes
		}
		if r.err != nil || n == 0 {
			break
		}
		if n < 0 {
			return 0, errors.New("a number is out of range")
		}
		for ; n > 0 && r.err == nil; n-- {
			schema = string(r.text()) == "avro.schema" || schema
			r.text()
		}
	}
	r.skip(syncLen)
	if r.err == nil && !schema {
		r.err = errors.New("it has no schema")
	}
	return r.i, r.err
}

// reader reads what Avro writes, until something is wrong.
type reader struct {
	b   []byte
	i   int
	err error
}

// long reads a zigzag-encoded number of up to 64 bits. After an error, also an earlier one, it
// returns 0, and r.err says what is wrong; errOpen means that the data ends before the number
// does.
func (r *reader) long() int64 {
	if r.err != nil {
		return 0
	}
	v, n := binary.Varint(r.b[r.i:])
	switch {
	case n == 0:
		r.err = errOpen
		return 0
	case n < 0:
		r.err = errors.New("a number is longer than 64 bits")
		return 0
	}
	r.i += n
	return v
}

// text reads a length and then that many bytes, and returns these bytes, a part of r.b. After an
// error it returns none.
func (r *reader) text() []byte {
	n := r.long()
	from := r.i
	r.skip(n)
	return r.b[from:r.i]
}

// skip moves over n bytes. If fewer are left it sets r.err to errOpen, and after an error it does
// nothing.
func (r *reader) skip(n int64) {
	switch {
	case r.err != nil:
	case n < 0:
		r.err = errors.New("a length is below zero")
	case n > int64(len(r.b)-r.i):
		r.err = errOpen
	default:
		r.i += int(n)
	}
}

// frameOf reads the two numbers at the beginning of an Avro block. It returns the number of
// records, and the length of the whole block in bytes: both numbers, the records and the sync
// marker. The error is errOpen if b ends within the numbers.
func frameOf(b []byte) (records int, length int64, err error) {
	r := reader{b: b}
	n, size := r.long(), r.long()
	switch {
	case r.err != nil:
		return 0, 0, r.err
	case n < 0 || n > math.MaxInt32:
		return 0, 0, errors.New("the number of records is out of range")
	case size < 0 || size > math.MaxInt64-64:
		return 0, 0, errors.New("the size is out of range")
	}
	return int(n), int64(r.i) + size + syncLen, nil
}

// nextBlock finds the end of the Avro block that data begins with, and checks the block. The cut
// has its length and kind: sound, filler (without records), open (more data is needed), or
// unsound or endless with the reason in s.fault. last says that nothing follows data.
func (s *Scanner) nextBlock(data []byte, last bool) cut {
	if len(s.head.bytes) == 0 {
		s.fault = malformed(nowhere, "a block of a file that has no header")
		return s.isolateBlock(data, last)
	}
	b := data[:min(len(data), s.opt.MaxRecord)]
	records, length, err := frameOf(b)
	switch {
	case errors.Is(err, errOpen) || err == nil && length > int64(len(b)):
		if len(b) < s.opt.MaxRecord && !last && length <= int64(s.opt.MaxRecord) {
			return cut{kind: open}
		}
		if s.fault = s.tooLong("a block longer than"); length <= int64(s.opt.MaxRecord) {
			s.fault = malformed(nowhere, "the file ends in a block")
		}
	case err != nil:
		s.fault = malformed(nowhere, "not a block: "+err.Error())
	case !s.endsInSync(b[:length]):
		s.fault = malformed(nowhere, "a block that the sync marker of the file does not end")
	case records == 0:
		return cut{kind: filler, n: int(length)}
	case s.opt.MaxBody > 0 && len(s.head.bytes)+int(length) > s.opt.MaxBody:
		s.fault = s.tooLong("a block longer than")
		s.fault.limit = s.opt.MaxBody - len(s.head.bytes)
		return cut{kind: unsound, n: int(length)}
	default:
		return cut{ended: true, n: int(length), records: records}
	}
	return s.isolateBlock(data, last)
}

// endsInSync reports whether a block ends with the sync marker of the file. With Validate
// there must be no other marker in it, or its size would be wrong.
func (s *Scanner) endsInSync(block []byte) bool {
	if !s.opt.Validate {
		return bytes.HasSuffix(block, s.head.sync())
	}
	return bytes.Index(block, s.head.sync()) == len(block)-syncLen
}

// isolateBlock returns the cut (kind and length) for a damaged block. The bytes up to the end of
// the next sync marker are unsound, or all of data if the file ends without one. If data has no
// marker yet, the cut is open, which asks for more data; from MaxRecord bytes on it is endless,
// and its first n bytes are certainly before a marker.
func (s *Scanner) isolateBlock(data []byte, last bool) cut {
	n, done := s.head.skipToBlock(data, last)
	switch {
	case done:
		return cut{kind: unsound, n: n}
	case len(data) >= s.opt.MaxRecord:
		return cut{kind: endless, n: n}
	}
	return cut{kind: open}
}

func (h *header) sync() []byte { return h.bytes[max(0, len(h.bytes)-syncLen):] }

// skipToBlock looks for the sync marker of the Avro file. If data has one, n is the index after
// it and done is true. Otherwise n is how many bytes cannot be the beginning of a marker, and the
// caller comes back with the bytes after them; at the end of the file (last) n is all of data and
// done is true.
func (h *header) skipToBlock(data []byte, last bool) (n int, done bool) {
	if len(h.bytes) > 0 {
		if i := bytes.Index(data, h.sync()); i >= 0 {
			return i + syncLen, true
		}
		if !last {
			return max(0, len(data)-syncLen+1), false
		}
	}
	return len(data), last
}

// PrefixLen returns the length of the header at the beginning of a payload's body, if the format
// has one, as Avro does; else 0. See Chunk.Prefix. Split and Count take the body without it.
func (s *Scanner) PrefixLen(body []byte) int {
	if !s.spec.NeedsHead {
		return 0
	}
	n, err := headerLen(body)
	if err != nil {
		return 0
	}
	return n
}

// measureBlock returns the length of the first Avro block of a body: all of body if it is the
// last, or cannot be read.
func measureBlock(body []byte) int {
	if _, n, err := frameOf(body); err == nil && n < int64(len(body)) {
		return int(n)
	}
	return len(body)
}

// countBlocks returns the number of records in a body of blocks.
func countBlocks(body []byte) (records int) {
	for ; len(body) > 0; body = body[measureBlock(body):] {
		n, _, _ := frameOf(body)
		records += n
	}
	return records
}
