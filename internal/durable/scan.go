package durable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Found is a frame as it was read. It and its bytes are only good until the callback
// returns.
type Found struct {
	Frame
	Offset  int64
	Size    int64
	Record  uint64 // id of its first record
	BodyBad bool   // the body is damaged; all else is sound
}

// Bad is a range of a segment that holds no readable frame.
type Bad struct {
	Offset, Length int64
	Torn           bool // never known as synced: a write the machine's end cut short
}

// Report is what a scan met.
type Report struct {
	Header Header
	End    int64 // of the last sound frame
	Synced int64 // the furthest offset that a sound frame says was synced
	Bad    []Bad
	Lost   uint64 // records missing between sound frames
}

// Scan reads a segment of the given kind, of a major version up to major, and
// calls fn for each sound frame in order. A frame that cannot be read is
// passed over: reading goes on at the next place that holds a header written
// for it. With bodies false only headers and metas are read and checked.
//
// The error is ErrDamaged or ErrVersion where the segment's header says so, an
// error of reading, or that of fn, which ends the scan.
func Scan(r io.ReaderAt, size int64, kind [4]byte, major uint16, bodies bool, fn func(*Found) error) (*Report, error) {
	w := &window{r: r, size: size}
	s := &scanner{w: w, bodies: bodies, fn: fn, written: size}
	if f, ok := r.(Sparse); ok {
		s.written = f.DataEnd(size)
	}
	b, err := w.bytes(0, segmentHeader)
	if err != nil {
		return nil, err
	}
	if s.report.Header, err = parseSegmentHeader(b, kind, major); err != nil {
		return &s.report, err
	}
	s.next = s.report.Header.FirstRecord
	s.report.End = segmentHeader
	err = s.run()
	for i := range s.report.Bad {
		s.report.Bad[i].Torn = s.report.Bad[i].Offset >= s.report.Synced
	}
	return &s.report, err
}

type scanner struct {
	w       *window
	bodies  bool
	fn      func(*Found) error
	written int64 // from here on there is only preallocated space
	report  Report
	next    uint64 // record id expected
	found   Found
}

// run passes each valid frame of the segment to the scanner's function, in order. It skips ranges
// without a readable frame and adds them to the report. An error is that of the function or one of
// reading.
func (s *scanner) run() error {
	for off := int64(segmentHeader); off < s.w.size; {
		h, ok, err := s.headerAt(off)
		if err != nil {
			return err
		}
		if !ok {
			if off, err = s.resync(off); err != nil {
				return err
			}
			continue
		}
		if err := s.frame(off, h); err != nil {
			return err
		}
		off += h.size()
	}
	return nil
}

// headerAt decodes the frame header at off. The second result is false if no header is valid there, or
// the segment ends before its frame does.
func (s *scanner) headerAt(off int64) (parsed, bool, error) {
	b, err := s.w.bytes(off, maxHeader)
	if err != nil {
		return parsed{}, false, err
	}
	h, ok := parseHeader(b, s.report.Header.Seq, off)
	return h, ok && h.size() <= s.w.size-off, nil
}

// frame verifies the frame at off, whose header h is valid, and passes it to fn. If its meta is
// damaged, the frame is only added to the report; if its body is, it is added to the report and
// passed to fn without the body.
func (s *scanner) frame(off int64, h parsed) error {
	s.report.Synced = max(s.report.Synced, h.synced)
	n := int64(h.header + h.meta + 4)
	if s.bodies {
		n = h.size()
	}
	b, err := s.w.bytes(off, n)
	if err != nil {
		return err
	}
	if int64(len(b)) < n { // cut shorter while it was read
		s.bad(off, h.size())
		return nil
	}
	b = b[h.header:]
	meta, rest := b[:h.meta:h.meta], b[h.meta:]
	if binary.LittleEndian.Uint32(rest) != checksum(meta) {
		s.bad(off, h.size())
		return nil
	}
	f := &s.found
	*f = Found{
		Frame:  Frame{Type: h.kind, Flags: h.flags, Records: h.records, Meta: meta},
		Offset: off, Size: h.size(), Record: h.record,
	}
	if s.bodies {
		f.Body = rest[4 : 4+h.body : 4+h.body]
		if f.BodyBad = binary.LittleEndian.Uint32(rest[4+h.body:]) != checksum(f.Body); f.BodyBad {
			f.Body = nil
			s.bad(off, h.size())
		}
	}
	if h.record > s.next { // a gap in the ids: the records between are missing
		s.report.Lost += h.record - s.next
	}
	s.next = h.record + uint64(h.records)
	s.report.End = off + h.size()
	return s.fn(f)
}

// resync returns where reading goes on after the bytes at off turned out to be no frame: the next
// aligned offset with a valid header, or the end of the segment. Zeros up to the end are preallocated
// space; all else that is skipped is added to the report.
func (s *scanner) resync(off int64) (int64, error) {
	content := off // behind the last byte that is not zero
	for p := off; p < min(s.written, s.w.size); {
		b, err := s.w.bytes(p, min(windowSize, s.w.buffered(p), s.written-p+maxHeader))
		if err != nil {
			return 0, err
		}
		if len(b) == 0 { // cut shorter while it was read
			break
		}
		whole := len(b) // up to here a header would be all in b
		if p+int64(len(b)) < s.w.size {
			whole -= maxHeader
		}
		i := 0
		for ; i < whole; i += alignment {
			if i+len(blank) <= whole && bytes.Equal(b[i:i+len(blank)], blank[:]) {
				i += len(blank) - alignment
				continue
			}
			if h, ok := parseHeader(b[i:], s.report.Header.Seq, p+int64(i)); ok && h.size() <= s.w.size-p-int64(i) {
				s.bad(off, p+int64(i)-off)
				return p + int64(i), nil
			}
			if word := b[i:min(i+alignment, len(b))]; !bytes.Equal(word, blank[:len(word)]) {
				content = p + int64(i+len(word))
			}
		}
		if p += int64(i); i > 0 && content < p-int64(len(blank)) { // nothing but zeros of late
			p = s.w.dataAt(p)
		}
	}
	if content > off {
		s.bad(off, content-off)
	}
	return s.w.size, nil
}

// blank is as much of preallocated space as is passed at once. No header begins with
// zeros, so none is passed with it.
var blank [64 * alignment]byte

// bad adds a range without a readable frame to the report.
func (s *scanner) bad(off, n int64) {
	s.report.Bad = append(s.report.Bad, Bad{Offset: off, Length: n})
}

// ReadSegment opens a segment file and calls fn for each valid frame, with its body if bodies is true.
// kind and major are what the header must have. The report lists the ranges that have no readable
// frame; the error names the file.
func ReadSegment(fsys FS, path string, kind [4]byte, major uint16, bodies bool, fn func(*Found) error) (rep *Report, err error) {
	err = openSegment(fsys, path, func(f File, size int64) (err error) {
		rep, err = Scan(f, size, kind, major, bodies, fn)
		return err
	})
	return rep, err
}

// ReadHeader returns the header of a segment and the size of its file. The errors are those of Scan.
func ReadHeader(fsys FS, path string, kind [4]byte, major uint16) (h Header, size int64, err error) {
	err = openSegment(fsys, path, func(f File, bytes int64) error {
		size = bytes
		b := make([]byte, segmentHeader)
		n, err := f.ReadAt(b, 0)
		if err == nil || errors.Is(err, io.EOF) {
			h, err = parseSegmentHeader(b[:n], kind, major)
		}
		return err
	})
	return h, size, err
}

// openSegment calls read with a segment file and its size. The errors of both name the file.
func openSegment(fsys FS, path string, read func(f File, size int64) error) error {
	f, err := fsys.Open(path, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err == nil {
		err = read(f, size)
	}
	if err != nil {
		return fmt.Errorf("read segment %q: %w", path, err)
	}
	return nil
}

const (
	windowSize = 256 << 10
	windowStep = 4 << 10
)

// window reads a file in steps that grow while it is read on and on, so that
// small frames cost no system call each, and that begin anew behind a leap, so
// that large bodies that nobody asks for are not read. It grows to the largest
// frame asked for.
type window struct {
	r    io.ReaderAt
	size int64
	step int64
	buf  []byte
	at   int64 // where buf lies in the file
}

// buffered returns how many bytes from the offset off on are in memory, so that bytes can return them
// without reading; the size of a whole window if these are too few to hold a header.
func (w *window) buffered(off int64) int64 {
	if n := w.at + int64(len(w.buf)) - off; off >= w.at && n > maxHeader {
		return n
	}
	return windowSize
}

// dataAt returns the first offset from off on, of those that a frame may begin at, which is not
// preallocated space that was never written to; off, where the reader cannot tell.
func (w *window) dataAt(off int64) int64 {
	if r, ok := w.r.(Sparse); ok {
		return max(off, r.DataAt(off, w.size)/alignment*alignment)
	}
	return off
}

// bytes returns n bytes at off, fewer only at the end of the file. They are valid until the next call.
// Each read is larger than the one before, up to a limit, while the reading goes on without leaps.
func (w *window) bytes(off, n int64) ([]byte, error) {
	n = min(n, w.size-off)
	if off >= w.at && off+n <= w.at+int64(len(w.buf)) {
		return w.buf[off-w.at:][:n], nil
	}
	if w.step = min(4*w.step, windowSize); off > w.at+int64(len(w.buf)) || w.step == 0 {
		w.step = windowStep
	}
	want := min(max(n, w.step), w.size-off)
	if int64(cap(w.buf)) < want {
		w.buf = make([]byte, want)
	}
	w.buf, w.at = w.buf[:want], off
	got, err := w.r.ReadAt(w.buf, off)
	if int64(got) == want || errors.Is(err, io.EOF) {
		w.buf = w.buf[:got]
		if int64(got) < want { // others made it shorter
			w.size = min(w.size, off+int64(got))
		}
		return w.buf[:min(n, int64(got))], nil
	}
	w.buf = w.buf[:0]
	return nil, err
}
