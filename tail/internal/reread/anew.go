package reread

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"kusto-agent/internal/format"
	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/fingerprint"
	"kusto-agent/tail/internal/settings"
)

// Anew is what the ranges of a payload hold by the settings that are in force.
type Anew struct {
	// Parts are the payloads to send, in order, without an id. Body is not compressed
	// and bears the id of the payload read anew where fields have the batch.
	Parts []*record.Payload
	// Refused are the records that must not be sent. They are to be in quarantine
	// before anything covers them.
	Refused []record.Rejected
	// Empty are the ranges that no part covers: nothing in them is to be sent.
	Empty []record.Extent
}

// Anew reads the ranges of a payload again with the current settings of their inputs. It
// returns the payloads to send, the records for quarantine, and the ranges without anything to
// send. It leaves out ranges that held nothing to send the first time, so that quarantine gets no
// record twice. A record ends where the payload ended, and a record that begins in the file before
// is read in two parts. The errors are those of Spans.
func (r Reader) Anew(p *record.Payload) (*Anew, error) {
	sent, rest := unsentBehind(p)
	files, err := r.openSources(sent)
	defer files.close()
	if err != nil {
		return nil, err
	}
	a := anew{files: r, p: p, out: &Anew{}}
	for _, x := range sent {
		if err := a.extent(files[x.File], x); err != nil {
			return nil, fmt.Errorf("read %v %v: %w", x.File, x.Span, err)
		}
	}
	a.seal()
	a.out.Empty = append(a.out.Empty, rest...)
	return a.out, nil
}

// anew reads a payload anew, extent by extent.
type anew struct {
	files Files
	p     *record.Payload
	out   *Anew

	part   *record.Payload // at the end of which more is joined; nil: none
	prefix []byte          // of part
	group  int
	lens   []byte
	shaped bool // a record of part has another length than in its file

	// Of the extent at hand.
	x     record.Extent // the rest of it that no part covers yet
	holds bool          // part has records of it
}

// extent reads the range x of the cover again from its file f. The error is ErrNotConfigured if the
// input was removed, or one of reading.
func (a *anew) extent(f Source, x record.Extent) error {
	of, err := a.files.Of(x.File)
	if err != nil {
		return err
	}
	in, info := of.In, of.Info
	if of.Former {
		return fmt.Errorf("%w: %s", ErrNotConfigured, in.Name)
	}
	o := in.Options()
	o.MaxRecord, o.MaxContent = MostRecord, 0 // the first read has checked the lengths
	scan, err := format.New(o)
	if err != nil {
		return err
	}
	if err := in.Prepare(scan, f, x.File, &info, a.p.ID); err != nil {
		return err
	}
	a.x, a.holds = x, false
	for _, span := range a.spans(x) {
		if err := a.read(in, info, f, scan, span); err != nil {
			return err
		}
	}
	if !a.holds {
		a.out.Empty = append(a.out.Empty, x)
		return nil
	}
	a.part.Cover = append(a.part.Cover, a.x)
	return nil
}

// spans returns the pieces of the payload in x, or all of x if a record begins in it and ends in
// the next file.
func (a *anew) spans(x record.Extent) (all []record.Span) {
	for i, piece := range a.p.Pieces {
		if isIn(x, piece) {
			all = append(all, piece.Span)
		} else if slices.Contains(extentsBefore(a.p, piece.File, a.p.Pieces[i].Start), x) {
			return []record.Span{x.Span} // the first record of the piece begins in x
		}
	}
	return all
}

// read reads a range of the file f again and adds what scan makes of it to the parts, or to what is
// refused. The error is ErrSourceGone if the file ends before the range does.
func (a *anew) read(in *settings.Compiled, info record.FileInfo, f io.ReaderAt, scan *format.Scanner, span record.Span) error {
	data := make([]byte, span.Len(), span.Len()+1)
	if _, err := fingerprint.ReadFull(f, data, span.Start); err != nil {
		return GoneIf(err, io.EOF, io.ErrUnexpectedEOF)
	}
	var c format.Chunk
	for at := 0; at < len(data); at += c.Consumed {
		base := span.Start + int64(at)
		scan.Scan(data[at:], base, true, in.MaxRecords, &c)
		if c.Consumed == 0 { // with these settings no record ends in the rest
			a.refuse(in, info, base, format.Reject{
				End: len(data) - at, Data: data[at:], Reason: record.Malformed, Message: "no record ends in what was read for other settings",
			})
			return nil
		}
		for _, j := range c.Rejected {
			a.refuse(in, info, base, j)
		}
		if c.Records == 0 {
			continue
		}
		if err := a.join(in, f, scan, &c, base); err != nil {
			return err
		}
	}
	return nil
}

// refuse adds the record j, which the scan has rejected, to those that go to quarantine. base is
// the offset of the scanned text in its file. If the input redacts, the bytes of the record are left
// out.
func (a *anew) refuse(in *settings.Compiled, info record.FileInfo, base int64, j format.Reject) {
	r := in.Rejected(a.x.File, &info, base, j)
	r.Data = bytes.Clone(r.Data)
	if in.Redacts() {
		r.Withhold()
	}
	a.out.Refused = append(a.out.Refused, r)
}

// join adds the records of a chunk to the current part, or seals that and begins another: then the
// cover of the first ends at base, the offset of the chunk, and the other covers the rest. After an
// error the result must not be used.
func (a *anew) join(in *settings.Compiled, f io.ReaderAt, scan *format.Scanner, c *format.Chunk, base int64) error {
	if !a.fits(in, c) {
		if a.holds {
			m, err := fingerprint.MarkAt(f, base)
			if err != nil {
				return err
			}
			head := a.x
			head.End, head.Mark = base, m
			a.part.Cover = append(a.part.Cover, head)
			a.x.Start = base
		}
		a.seal()
		a.part = &record.Payload{Route: in.Route, Shaping: in.Shaping, Body: bytes.Clone(c.Prefix)}
		a.prefix, a.group, a.lens, a.shaped = bytes.Clone(c.Prefix), c.Group, nil, false
	}
	a.holds = true
	a.part.Body = append(a.part.Body, c.Body...)
	a.lens, a.shaped = append(a.lens, lengths(scan, c)...), a.shaped || c.Lens != nil
	a.part.Records += c.Records
	a.part.Pieces = c.AppendPieces(a.part.Pieces, a.x.File, base)
	return nil
}

// fits reports whether the records of a chunk can be added to the current part.
func (a *anew) fits(in *settings.Compiled, c *format.Chunk) bool {
	switch p := a.part; {
	case p == nil, !in.IsShaped(p), a.group != c.Group, !bytes.Equal(a.prefix, c.Prefix),
		len(p.Body)+len(c.Body) > in.MaxSize, len(p.Pieces)+len(c.Pieces) > record.MaxPieces,
		in.MaxRecords > 0 && p.Records+c.Records > in.MaxRecords:
		return false
	}
	return true
}

// seal ends the current part, if there is one. It has lengths only if one differs from that in the
// body.
func (a *anew) seal() {
	if a.part == nil {
		return
	}
	if a.shaped {
		a.part.Lens = a.lens
	}
	a.out.Parts = append(a.out.Parts, a.part)
	a.part = nil
}
