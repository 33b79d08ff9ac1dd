package tail

import (
	"bytes"
	"encoding/binary"
	"kusto-agent/internal/format"
	"kusto-agent/internal/record"
	"math"
)

// Passed is a record that was handed over, or a block of them in Avro.
type Passed struct {
	File    record.File
	Path    string
	Offset  int64  // of its first byte in the file
	Length  int64  // in the file, its line end included
	Records int    // in a block; else 1
	Block   bool   // of an Avro file
	Data    []byte // as it is sent, its line end included; valid until the function it was given to returns
}

// passing is a copy of a chunk.
type passing struct {
	format record.Format
	file   record.File
	path   string
	body   []byte
	lens   []byte
	pieces []record.Span
	stamp  record.BatchID
}

// each calls f with every record of a tapped chunk, with its place in the file, until f returns an
// error. In the records, the id of the batch (stamp) is replaced by zeros, because the batch does
// not exist yet.
func (c *passing) each(f func(*Passed) error) error {
	scan, err := format.New(format.Options{Format: c.format, MaxRecord: math.MaxInt32})
	if err != nil {
		return err
	}
	var stamp, none []byte
	if c.stamp != (record.BatchID{}) {
		stamp, none = []byte(c.stamp.String()), []byte(record.BatchID{}.String())
	}
	rec := Passed{File: c.file, Path: c.path, Block: c.format == record.Avro, Records: 1}
	place := sourcePlaces{pieces: c.pieces, lens: c.lens, measured: c.lens != nil}
	for body := c.body; len(body) > 0; {
		n := scan.Split(body, 1)
		rec.Data = body[:n]
		body = body[n:]
		rec.Offset, rec.Length = place.next(n)
		if rec.Block {
			rec.Records = scan.Count(rec.Data)
		}
		if stamp != nil {
			rec.Data = bytes.ReplaceAll(rec.Data, stamp, none)
		}
		if err := f(&rec); err != nil {
			return err
		}
	}
	return nil
}

// sourcePlaces tells where in their file the records of a chunk are.
type sourcePlaces struct {
	pieces   []record.Span
	lens     []byte // see record.Payload
	measured bool   // there are some
	at       int64  // in the first piece, from its start
}

// next returns the place in the file of the next record, which has n bytes in the body. If records
// were changed, the lengths in the file are in s.lens. A length of 0 means that the record was made
// of the same lines as the next one with a length: then both have the same place.
func (s *sourcePlaces) next(n int) (offset, length int64) {
	for len(s.pieces) > 1 && s.at >= s.pieces[0].Len() {
		s.pieces, s.at = s.pieces[1:], 0
	}
	offset, length = s.pieces[0].Start+s.at, int64(n)
	step := length
	if s.measured {
		v, k := binary.Uvarint(s.lens)
		s.lens = s.lens[k:]
		step, length = int64(v), int64(v)
		for ahead := s.lens; length == 0 && len(ahead) > 0; ahead = ahead[k:] {
			v, k = binary.Uvarint(ahead)
			length = int64(v)
		}
	}
	s.at += step
	return offset, length
}
