package tail

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"

	"kusto-agent/format"
	"kusto-agent/record"
)

// ErrSourceGone says that a file no longer holds the bytes a batch was made
// of, or can not be found.
var ErrSourceGone = errors.New("source is gone")

// ReadSpans makes the body of a payload again from the ranges its pieces name:
// the same bytes, if file and settings are the same. Lens is set in p as
// sealing would. It fails with ErrSourceGone where the ranges can not be had.
func (t *Tailer) ReadSpans(p *record.Payload) ([]byte, error) {
	files := make(map[record.File]*os.File)
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	for _, x := range p.Cover {
		if err := t.openSource(files, x); err != nil {
			return nil, fmt.Errorf("read %v %v: %w", x.File, x.Span, err)
		}
	}
	scan, err := format.New(format.Options{Format: p.Route.Format, MaxRecord: math.MaxInt32})
	if err != nil {
		return nil, err
	}
	body := make([]byte, 0, p.RawBytes)
	lens, shaped := []byte(nil), false
	p.Records = 0
	for i, piece := range p.Pieces {
		f := files[piece.File]
		if f == nil {
			return nil, fmt.Errorf("%w: %v has no cover", ErrSourceGone, piece.File)
		}
		data := make([]byte, piece.Len(), piece.Len()+1)
		if _, err := readFull(f, data, piece.Start); err != nil {
			return nil, fmt.Errorf("read %v %v: %w", piece.File, piece.Span, goneIf(err, io.EOF, io.ErrUnexpectedEOF))
		}
		p.Pieces[i].Records = 0
		for at := 0; at < len(data); {
			var c format.Chunk
			scan.Scan(data[at:], max(piece.Start, 1), true, 0, &c)
			if c.Consumed == 0 {
				return nil, fmt.Errorf("%w: %v %v holds no whole record", ErrSourceGone, piece.File, piece.Span)
			}
			body = append(body, c.Body...)
			lens, shaped = append(lens, lengths(scan, &c)...), shaped || c.Lens != nil
			p.Pieces[i].Records += c.Records
			p.Records += c.Records
			at += c.Consumed
		}
	}
	if p.Lens = nil; shaped {
		p.Lens = lens
	}
	return body, nil
}

// lengths are those of a chunk's records in their file, as in record.Payload.
func lengths(scan *format.Scanner, c *format.Chunk) []byte {
	if c.Lens != nil {
		return c.Lens
	}
	var lens []byte
	for body := c.Body; len(body) > 0; {
		n := scan.Split(body, 1)
		lens = binary.AppendUvarint(lens, uint64(n))
		body = body[n:]
	}
	return lens
}

// openSource opens the file of an extent and sees that its bytes are there. A
// file that may be read another time, such as one without permission, is not
// gone.
func (t *Tailer) openSource(files map[record.File]*os.File, x record.Extent) error {
	f := files[x.File]
	if f == nil {
		info, ok := t.infoOf(x.File)
		if !ok {
			return fmt.Errorf("%w: nothing is remembered of the file", ErrSourceGone)
		}
		path, ok := findNode(info)
		if !ok && x.Mark == 0 {
			return fmt.Errorf("%w: file was moved or deleted", ErrSourceGone)
		}
		if !ok {
			path = info.Path // perhaps a copy: the mark decides
		}
		var err error
		if f, _, err = openFile(path); err != nil {
			return goneIf(err, fs.ErrNotExist)
		}
		files[x.File] = f
	}
	m, err := markAt(f, x.End)
	if err != nil {
		return goneIf(err, io.EOF, io.ErrUnexpectedEOF)
	}
	if x.Mark != 0 && m != x.Mark {
		return fmt.Errorf("%w: its content has changed", ErrSourceGone)
	}
	return nil
}

// goneIf makes an error say that a source is gone if it is one of these.
func goneIf(err error, ends ...error) error {
	for _, end := range ends {
		if errors.Is(err, end) {
			return fmt.Errorf("%w: %w", ErrSourceGone, err)
		}
	}
	return err
}

func (t *Tailer) infoOf(f record.File) (record.FileInfo, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, in := range t.inputs {
		if k := in.known[f]; k != nil {
			return k.info, true
		}
	}
	return record.FileInfo{}, false
}
