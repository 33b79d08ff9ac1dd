package reread

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/fingerprint"
)

// Restore sets the bytes of refused records of p to those in their source files, if p
// holds them parsed or decoded. A record whose source cannot be read keeps the bytes that
// were sent, and the error says why. A record that was redacted keeps the redacted bytes;
// if its input redacts by other settings now, or did not redact then, it gets no bytes.
func (r Reader) Restore(p *record.Payload, recs []record.Rejected) error {
	for i := range recs {
		rec := &recs[i]
		now := r.Redacting(rec.File.Input)
		if p.Shaping&record.Withheld != 0 {
			rec.Redacted = true
			if before := extentsBefore(p, rec.File, rec.Offset); len(before) > 0 {
				for _, x := range before {
					rec.Length += x.Len()
				}
				rec.Message = WhereBefore(before)
			}
		}
		if now != nil && now.Shaping != p.Shaping {
			rec.Withhold()
		}
	}
	if p.Shaping&(record.Reshaped|record.Withheld) != record.Reshaped {
		return nil
	}
	files, bad := make(sources), make(map[record.File]error)
	defer files.close()
	for _, x := range p.Cover {
		if err := r.openSource(files, x); err != nil {
			bad[x.File] = err
		}
	}
	for i := range recs {
		rec := &recs[i]
		if f := files[rec.File]; f != nil && bad[rec.File] == nil && !rec.Redacted {
			if err := restore(p, rec, files); err != nil {
				bad[rec.File] = fmt.Errorf("read %v at %d: %w", rec.File, rec.Offset, err)
			}
		}
	}
	return errors.Join(slices.Collect(maps.Values(bad))...)
}

// restore reads the bytes of the rejected record rec from its open source files. If it begins in
// another one, its length counts all bytes, and its message says where. The error is ErrSourceGone
// or one of reading.
func restore(p *record.Payload, rec *record.Rejected, files sources) error {
	before := extentsBefore(p, rec.File, rec.Offset)
	var data []byte
	for _, x := range append(slices.Clip(before), record.Extent{File: rec.File, Span: record.Span{Start: rec.Offset, End: rec.Offset + rec.Length}}) {
		have := len(data)
		data = append(data, make([]byte, x.Len())...)
		if files[x.File] == nil {
			return ErrSourceGone
		}
		if _, err := fingerprint.ReadFull(files[x.File], data[have:], x.Start); err != nil {
			return err
		}
	}
	if rec.Data = data; len(before) > 0 {
		rec.Length, rec.Message = int64(len(data)), WhereBefore(before)
	}
	return nil
}

// WhereBefore says in which file and at which offset a record begins that continues here.
func WhereBefore(before []record.Extent) string {
	text := ""
	for _, x := range before {
		text += fmt.Sprintf("its first %d bytes are at offset %d of file %v, ", x.Len(), x.Start, x.File.ID)
	}
	return text + "the others follow here"
}
