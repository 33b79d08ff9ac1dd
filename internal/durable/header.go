package durable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

const (
	segmentMagic  = 0x6b474553 // "SEGk"
	segmentHeader = 64
)

// ErrDamaged is returned for a segment whose header cannot be read: nothing
// in it can be told.
var ErrDamaged = errors.New("segment header damaged")

// ErrVersion is returned for a sound segment that a later version of the
// program wrote in a way this one cannot read.
var ErrVersion = errors.New("written by a later version of the program; run that version again, or move the folder away, and with it what only it knows")

// Header opens a segment. Its 64 bytes are the same in every version.
type Header struct {
	Kind        [4]byte // which store it belongs to
	Major       uint16  // a reader refuses a major version above its own
	Minor       uint16
	Seq         uint64 // rises by at least one from segment to segment
	Agent       [16]byte
	FirstRecord uint64
	Created     time.Time
	// Room is how many KiB were allocated behind what the segment began with; 0:
	// not known. A segment that is shorter and was not closed was cut.
	Room uint32
}

// appendHeader appends the 64 bytes of a segment header to b.
func appendHeader(b []byte, h *Header) []byte {
	start := len(b)
	b = binary.LittleEndian.AppendUint32(b, segmentMagic)
	b = append(b, h.Kind[:]...)
	b = binary.LittleEndian.AppendUint16(b, h.Major)
	b = binary.LittleEndian.AppendUint16(b, h.Minor)
	b = binary.LittleEndian.AppendUint32(b, segmentHeader)
	b = binary.LittleEndian.AppendUint64(b, h.Seq)
	b = append(b, h.Agent[:]...)
	b = binary.LittleEndian.AppendUint64(b, h.FirstRecord)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.Created.UnixNano()))
	b = binary.LittleEndian.AppendUint32(b, h.Room)
	return binary.LittleEndian.AppendUint32(b, checksum(b[start:]))
}

// parseSegmentHeader decodes a segment header. The error is ErrDamaged, also if the segment is not of
// the given kind, or ErrVersion if its major version is above major. The checksum is verified before
// the version is compared, so that a flipped bit counts as damage and not as a later version.
func parseSegmentHeader(b []byte, kind [4]byte, major uint16) (Header, error) {
	var h Header
	if len(b) < segmentHeader || binary.LittleEndian.Uint32(b) != segmentMagic ||
		binary.LittleEndian.Uint32(b[60:]) != checksum(b[:60]) ||
		binary.LittleEndian.Uint32(b[12:]) != segmentHeader {
		return h, ErrDamaged
	}
	copy(h.Kind[:], b[4:8])
	h.Major, h.Minor = binary.LittleEndian.Uint16(b[8:]), binary.LittleEndian.Uint16(b[10:])
	h.Seq = binary.LittleEndian.Uint64(b[16:])
	copy(h.Agent[:], b[24:40])
	h.FirstRecord = binary.LittleEndian.Uint64(b[40:])
	h.Created = time.Unix(0, int64(binary.LittleEndian.Uint64(b[48:])))
	h.Room = binary.LittleEndian.Uint32(b[56:])
	if h.Kind != kind {
		return h, fmt.Errorf("segment is of kind %q, want %q: %w", h.Kind, kind, ErrDamaged)
	}
	if h.Major > major {
		return h, fmt.Errorf("segment has version %d.%d, and this program knows up to %d: %w", h.Major, h.Minor, major, ErrVersion)
	}
	return h, nil
}
