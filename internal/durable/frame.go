package durable

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

const (
	frameMagic  = 0x6b46524d // "MRFk"
	frameHeader = 40
	maxHeader   = 256 // a later minor version may make headers longer, up to here
	alignment   = 8

	// MaxFrame is the most bytes the meta and the body of one frame have together.
	MaxFrame = 16<<20 + 64<<10
)

// ErrTooLarge is returned for a frame above MaxFrame; nothing was written.
var ErrTooLarge = errors.New("frame too large")

// Optional is the frame flag that lets a reader skip a type it does not know.
const Optional uint8 = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Frame is one entry of a framed log. What its type, meta and body mean is for
// the store to say.
type Frame struct {
	Type    uint8
	Flags   uint8
	Records uint32 // by how much the record id advances
	Meta    []byte
	Body    []byte
}

// size is what the frame takes on disk.
func (f *Frame) size() int64 { return frameSize(frameHeader, len(f.Meta), len(f.Body)) }

// frameSize returns how many bytes a frame takes on disk, with checksums and padding. header, meta
// and body are the sizes of its parts.
func frameSize(header, meta, body int) int64 {
	n := int64(header) + int64(meta) + 4 + int64(body) + 4
	return (n + alignment - 1) &^ (alignment - 1)
}

// place is what a frame's header says of where it stands.
type place struct {
	seq    uint64 // of the segment
	offset int64
	record uint64 // id of its first record
	synced int64
}

// appendHead appends the header and the meta of a frame to b; its body comes after them. at is where
// the frame will be in its segment.
func appendHead(b []byte, f *Frame, at place) []byte {
	start := len(b)
	b = binary.LittleEndian.AppendUint32(b, frameMagic)
	b = append(b, f.Type, f.Flags)
	b = binary.LittleEndian.AppendUint16(b, frameHeader)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.Meta)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.Body)))
	b = binary.LittleEndian.AppendUint64(b, at.record)
	b = binary.LittleEndian.AppendUint32(b, f.Records)
	b = binary.LittleEndian.AppendUint64(b, uint64(at.synced))
	b = binary.LittleEndian.AppendUint32(b, headerSum(b[start:], at.seq, at.offset))
	b = append(b, f.Meta...)
	return binary.LittleEndian.AppendUint32(b, checksum(f.Meta))
}

// appendTail appends to b what comes after the body of a frame: its checksum and the padding.
func appendTail(b []byte, f *Frame) []byte {
	b = binary.LittleEndian.AppendUint32(b, checksum(f.Body))
	padding := f.size() - int64(frameHeader+len(f.Meta)+4+len(f.Body)+4)
	return append(b, make([]byte, padding)...)
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// headerSum returns the checksum of a frame header (without its last four bytes), which is valid only
// at this offset of this segment.
func headerSum(header []byte, seq uint64, offset int64) uint32 {
	var where [16]byte
	binary.LittleEndian.PutUint64(where[:8], seq)
	binary.LittleEndian.PutUint64(where[8:], uint64(offset))
	return crc32.Update(checksum(where[:]), castagnoli, header)
}

// parsed is a frame header as read.
type parsed struct {
	kind, flags        uint8
	header, meta, body int
	record             uint64
	records            uint32
	synced             int64
}

func (p *parsed) size() int64 { return frameSize(p.header, p.meta, p.body) }

// parseHeader decodes the frame header at the beginning of b. It returns false unless the header is
// sound and was written for this offset of the segment with the number seq. b may be longer than the
// header.
func parseHeader(b []byte, seq uint64, offset int64) (parsed, bool) {
	if len(b) < frameHeader || binary.LittleEndian.Uint32(b) != frameMagic {
		return parsed{}, false
	}
	n := int(binary.LittleEndian.Uint16(b[6:]))
	if n < frameHeader || n > maxHeader || n > len(b) {
		return parsed{}, false
	}
	if headerSum(b[:n-4], seq, offset) != binary.LittleEndian.Uint32(b[n-4:]) {
		return parsed{}, false
	}
	meta, body := binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint32(b[12:])
	synced := binary.LittleEndian.Uint64(b[28:])
	if uint64(meta)+uint64(body) > MaxFrame || synced > uint64(offset) {
		return parsed{}, false
	}
	return parsed{
		kind: b[4], flags: b[5], header: n, meta: int(meta), body: int(body),
		record:  binary.LittleEndian.Uint64(b[16:]),
		records: binary.LittleEndian.Uint32(b[24:]),
		synced:  int64(synced),
	}, true
}
