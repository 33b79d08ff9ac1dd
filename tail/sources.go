package tail

import (
	"errors"
	"fmt"
	"slices"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/fingerprint"
)

// Restore sets the bytes of refused records of p to those in their source files, if p
// holds them parsed or decoded. A record whose source cannot be read keeps the bytes that
// were sent, and the error says why. A record that was redacted keeps the redacted bytes;
// if its input redacts by other settings now, or did not redact then, it gets no bytes.
func (t *Tailer) Restore(p *record.Payload, recs []record.Rejected) error {
	for i := range recs {
		r := &recs[i]
		now := t.withholding(r.File.Input)
		if p.Shaping&record.Withheld != 0 {
			r.Redacted = true
			if before := extentsBefore(p, r.File, r.Offset); len(before) > 0 {
				for _, x := range before {
					r.Length += x.Len()
				}
				r.Message = whereBefore(before)
			}
		}
		if now != nil && now.shaping != p.Shaping {
			r.Withhold()
		}
	}
	if p.Shaping&(record.Reshaped|record.Withheld) != record.Reshaped {
		return nil
	}
	files := make(map[record.File]source)
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	bad := make(map[record.File]error)
	for _, x := range p.Cover {
		if err := t.openSource(files, x); err != nil {
			bad[x.File] = fmt.Errorf("read %v %v: %w", x.File, x.Span, err)
		}
	}
	for i := range recs {
		r := &recs[i]
		if f := files[r.File]; f != nil && bad[r.File] == nil && !r.Redacted {
			if err := restore(p, r, files); err != nil {
				bad[r.File] = fmt.Errorf("read %v at %d: %w", r.File, r.Offset, err)
			}
		}
	}
	var all []error
	for _, err := range bad {
		all = append(all, err)
	}
	return errors.Join(all...)
}

// withholding returns the input of this name if it redacts, else nil.
func (t *Tailer) withholding(name string) *input {
	t.mu.Lock()
	defer t.mu.Unlock()
	if in, _ := t.inputOf(name); in != nil && in.rules.Withholds() {
		return in
	}
	return nil
}

// restore reads the bytes of the rejected record r from its open source files and stores them in
// r.Data. If the record begins in another file, its length counts all bytes, and its message says
// where it begins. The error is ErrSourceGone if a file is missing, or one of reading.
func restore(p *record.Payload, r *record.Rejected, files map[record.File]source) error {
	before := extentsBefore(p, r.File, r.Offset)
	var data []byte
	for _, x := range append(slices.Clip(before), record.Extent{File: r.File, Span: record.Span{Start: r.Offset, End: r.Offset + r.Length}}) {
		have := len(data)
		data = append(data, make([]byte, x.Len())...)
		if files[x.File] == nil {
			return ErrSourceGone
		}
		if _, err := fingerprint.ReadFull(files[x.File], data[have:], x.Start); err != nil {
			return err
		}
	}
	if r.Data = data; len(before) > 0 {
		r.Length, r.Message = int64(len(data)), whereBefore(before)
	}
	return nil
}
