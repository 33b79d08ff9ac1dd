package reread

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"kusto-agent/internal/format"
	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/fingerprint"
)

// Spans builds the body of a payload again from the ranges in its pieces: the same
// bytes, if the files are the same. It sets p.Lens. It fails with ErrSourceGone if the
// bytes are gone, with ErrReshaped if the route or the shaping of the input has changed
// (see Anew), with ErrNotConfigured if there is no such input, and with the error of
// the disk if the files cannot be read now. After an error p is unchanged.
func (r Reader) Spans(p *record.Payload) (body []byte, err error) {
	was, pieces := p.Records, p.Pieces
	p.Pieces = slices.Clone(pieces)
	defer func() {
		if err != nil {
			p.Records, p.Pieces = was, pieces
		}
	}()
	sent, _ := unsentBehind(p)
	files, err := r.openSources(sent)
	defer files.close()
	if err != nil {
		return nil, err
	}
	again := rereader{files: r, p: p, body: make([]byte, 0, p.RawBytes), scanners: make(map[string]*format.Scanner)}
	p.Records = 0
	for i := range p.Pieces {
		f := files[p.Pieces[i].File]
		if f == nil {
			return nil, fmt.Errorf("%w: %v has no cover", ErrSourceGone, p.Pieces[i].File)
		}
		before, err := readBefore(p, i, files)
		if err == nil {
			err = again.read(f, &p.Pieces[i], before)
		}
		if err != nil {
			return nil, fmt.Errorf("read %v %v: %w", p.Pieces[i].File, p.Pieces[i].Span, err)
		}
	}
	if p.Records == 0 {
		return nil, fmt.Errorf("%w: no record is there", ErrSourceGone)
	}
	if p.Lens = nil; again.shaped {
		p.Lens = again.lens
	}
	return again.body, nil
}

// Divide divides the ranges of a payload that Spans cannot build as a whole: left has those
// that can be read, also with other settings than before, and gone those whose source is gone.
// Ranges without pieces stay with the next range that has pieces, whose first record begins in
// them; those behind all pieces need no source and are in left. The error is any other error of
// Spans; left and gone are then not complete.
func (r Reader) Divide(p *record.Payload) (left, gone record.Payload, err error) {
	left, gone = *p, *p
	for _, part := range []*record.Payload{&left, &gone} {
		part.Cover, part.Pieces, part.Records = nil, nil, 0
	}
	sent, rest := unsentBehind(p)
	var cover []record.Extent // ranges without pieces, and the range that follows them
	for _, x := range sent {
		cover = append(cover, x)
		of := *p
		of.Cover, of.Pieces = cover, nil
		for _, piece := range p.Pieces {
			if isIn(x, piece) {
				of.Pieces = append(of.Pieces, piece)
			}
		}
		if len(of.Pieces) == 0 {
			continue
		}
		to := &left
		if _, err := r.Spans(&of); errors.Is(err, ErrSourceGone) {
			to = &gone
		} else if err != nil && !errors.Is(err, ErrReshaped) {
			return left, gone, err
		}
		to.Cover, to.Pieces = append(to.Cover, cover...), append(to.Pieces, of.Pieces...)
		for _, piece := range of.Pieces {
			to.Records += piece.Records
		}
		cover = nil
	}
	left.Cover = append(left.Cover, rest...)
	return left, gone, nil
}

// unsentBehind divides the cover of a payload after its last range that has pieces. The ranges in
// rest hold no byte that was sent: a split leaves such a range if the records behind it are in the
// other half. Their sources are not needed. A range without pieces in sent has the beginning of
// the record that goes on in the range after it.
func unsentBehind(p *record.Payload) (sent, rest []record.Extent) {
	n := len(p.Cover)
	for n > 0 && !slices.ContainsFunc(p.Pieces, func(piece record.Piece) bool { return isIn(p.Cover[n-1], piece) }) {
		n--
	}
	return p.Cover[:n], p.Cover[n:]
}

// isIn reports whether a piece lies in the range x of its file.
func isIn(x record.Extent, piece record.Piece) bool {
	return piece.File == x.File && piece.Start >= x.Start && piece.End <= x.End
}

// rereader makes a body again, piece by piece.
type rereader struct {
	files    Files
	p        *record.Payload
	scanners map[string]*format.Scanner // by input

	prefix []byte
	body   []byte
	lens   []byte
	shaped bool // a record has another length than in its file
}

// MostRecord is more bytes than any record, block or header of a payload can have.
const MostRecord = 16 << 20

// scanner returns the scanner of the input of a piece, set up for its file f. It validates nothing,
// since the first read did. The error is ErrReshaped, or one of Files.Of.
func (a *rereader) scanner(f io.ReaderAt, piece *record.Piece) (*format.Scanner, error) {
	of, err := a.files.Of(piece.File)
	if err != nil {
		return nil, err
	}
	in := of.In
	if !in.IsShaped(a.p) {
		return nil, fmt.Errorf("%w: %s", ErrReshaped, in.Name)
	}
	scan := a.scanners[in.Name]
	if scan == nil {
		o := in.Options()
		o.Validate, o.SkipHeader, o.MaxBody, o.MaxContent = false, false, 0, 0
		if !o.Joins() { // records of several lines end at MaxRecord, as in the first read
			o.MaxRecord = MostRecord
		}
		if scan, err = format.New(o); err != nil {
			return nil, err
		}
		a.scanners[in.Name] = scan
	}
	return scan, in.Prepare(scan, f, piece.File, &of.Info, a.p.ID)
}

// readBefore returns the beginning of the first record of a piece, by its index in p, if it lies at
// the end of earlier files. The error is ErrSourceGone if a file is too short, or one of reading.
func readBefore(p *record.Payload, piece int, files sources) (all []byte, err error) {
	for _, x := range extentsBefore(p, p.Pieces[piece].File, p.Pieces[piece].Start) {
		data := make([]byte, x.Len())
		if _, err := fingerprint.ReadFull(files[x.File], data, x.Start); err != nil {
			return nil, GoneIf(err, io.EOF, io.ErrUnexpectedEOF)
		}
		all = append(all, data...)
	}
	return all, nil
}

// extentsBefore returns the ranges of earlier files in which the record begins that goes on at the
// start (at is 0) of the file f. They come just before it in p.Cover, and have no pieces.
func extentsBefore(p *record.Payload, f record.File, at int64) []record.Extent {
	i := slices.IndexFunc(p.Cover, func(x record.Extent) bool { return x.File == f && x.Start == at })
	first := max(i, 0)
	for first > 0 && at == 0 && !slices.ContainsFunc(p.Pieces, func(o record.Piece) bool { return o.File == p.Cover[first-1].File }) {
		first--
	}
	return p.Cover[first:max(i, 0)]
}

// read adds the records of a piece to the body. before is the beginning of the first if that lies
// in earlier files. The error is ErrSourceGone if the bytes are no whole records any more or their
// header is another one.
func (a *rereader) read(f io.ReaderAt, piece *record.Piece, before []byte) error {
	scan, err := a.scanner(f, piece)
	if err != nil {
		return err
	}
	data := append(make([]byte, 0, len(before)+int(piece.Len())+1), before...)
	data = data[:len(before)+int(piece.Len())]
	if _, err := fingerprint.ReadFull(f, data[len(before):], piece.Start); err != nil {
		return GoneIf(err, io.EOF, io.ErrUnexpectedEOF)
	}
	piece.Records = 0
	var c format.Chunk
	for at := 0; at < len(data); at += c.Consumed {
		scan.Scan(data[at:], piece.Start+int64(at-len(before)), true, 0, &c)
		switch {
		case c.Consumed == 0:
			return fmt.Errorf("%w: no whole record is there", ErrSourceGone)
		case c.Records == 0: // only bytes without records, such as blank lines: the file was rewritten
			continue
		case len(a.body) == 0:
			a.prefix = bytes.Clone(c.Prefix)
			a.body = append(a.body, c.Prefix...)
		case !bytes.Equal(a.prefix, c.Prefix):
			return fmt.Errorf("%w: its header has changed", ErrSourceGone)
		}
		a.body = append(a.body, c.Body...)
		if at < len(before) {
			c.Lens = UnitLens(c.Records, int64(max(at+c.Consumed-len(before), 0)))
		}
		a.lens, a.shaped = append(a.lens, lengths(scan, &c)...), a.shaped || c.Lens != nil
		piece.Records += c.Records
		a.p.Records += c.Records
	}
	return nil
}

// UnitLens returns the lengths, encoded as in record.Payload, of several records that were made of the
// same n bytes: all but the last have the length 0, and the last has n.
func UnitLens(records int, n int64) []byte {
	return binary.AppendUvarint(make([]byte, records-1, records+binary.MaxVarintLen64), uint64(n))
}

// lengths returns the lengths that the records of a chunk have in their file, encoded as
// in record.Payload.
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
