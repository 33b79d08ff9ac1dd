package spool

import (
	"errors"
	"fmt"
	"time"
	"unique"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/record"
	"kusto-agent/internal/wire"
)

// kind marks the segments of a spool.
var kind = [4]byte{'s', 'p', 'o', 'l'}

// The version of the segments written here. A reader accepts any minor one.
const (
	major = 1
	minor = 1 // 1: Header.Agent is that of the agent, and not one of the spool's own
)

// The types of frames. Never change a number.
const (
	typePayload uint8 = 1
	typeSeal    uint8 = 2 // all before is durable and nothing follows (optional)
)

// metaVersion opens each meta. A reader accepts more bytes behind those it
// knows, so that fields may be added at the end; any other change raises it.
const metaVersion = 1

// errMalformed marks a meta whose checksum is right and whose content is not: a
// bug of whoever wrote it.
var errMalformed = errors.New("meta malformed")

// encodeMeta encodes all of a payload but its body, and the time when it came to the spool. It keeps
// a nil p.Lens (the lengths of the records in their files) apart from an empty one.
func encodeMeta(p *record.Payload, spooled time.Time) []byte {
	w := &wire.Writer{B: make([]byte, 0, 256+len(p.Lens))}
	w.Byte(metaVersion)
	w.Int(spooled.UnixNano())
	w.Payload(p, p.Lens != nil)
	w.Bytes(p.Lens)
	return w.B
}

// decodeMeta decodes the meta of a frame: a payload without its body, and when it came to the spool.
// p.Lens points into b; own copies it. The error is durable.ErrVersion for a meta of a later version
// of the program, and errMalformed for invalid content.
func decodeMeta(b []byte) (p *record.Payload, spooled time.Time, err error) {
	if len(b) > 0 && b[0] != metaVersion {
		return nil, time.Time{}, fmt.Errorf("payload has version %d, and this program knows up to %d: %w", b[0], metaVersion, durable.ErrVersion)
	}
	r := &wire.Reader{B: b}
	r.Byte()
	at := r.Int()
	read, hadLens := r.Payload()
	lens := r.Bytes()
	if r.Bad || read.ID == (record.BatchID{}) {
		return nil, time.Time{}, errMalformed
	}
	if hadLens {
		read.Lens = lens
	}
	return &read, time.Unix(0, at), nil
}

// route is a record.Route in the size of a pointer: an index has many.
type route = unique.Handle[record.Route]

// count is how many records of an input there are.
type count struct {
	input   string
	records int
}

// unreadable returns a stand-in for a payload of which only the id, the route and the number of
// records by input are known. It has one piece for each input.
func unreadable(id record.BatchID, to record.Route, inputs []count) *record.Payload {
	p := &record.Payload{ID: id, Route: to}
	for _, c := range inputs {
		p.Records += c.records
		p.Pieces = append(p.Pieces, record.Piece{File: record.File{Input: c.input}, Records: c.records})
	}
	return p
}
