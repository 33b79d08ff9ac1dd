package records

import (
	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/notices"
)

// tellQuarantined logs the first record of a file that goes to quarantine; the others are
// only counted.
func (x *Reader) tellQuarantined(f *File, offset int64, reason record.Reason, message string) {
	if f.Quarantined {
		return
	}
	f.Quarantined = true
	fix := "see that format is that of the file; the records are kept in state_dir/quarantine"
	switch {
	case reason == record.TooLong && f.In.Format == record.Avro:
		fix = "raise batch.max_size, or have smaller blocks written; their beginnings are kept in state_dir/quarantine"
	case reason == record.TooLong:
		fix = "raise max_record_size if such records are wanted; their beginnings are kept in state_dir/quarantine"
	case reason == record.Grown:
		fix = "raise batch.max_size, or add less with fields; the records are kept in state_dir/quarantine"
	}
	x.Logger.Warn("file has bad records, they go to quarantine; this is the first", "input", f.In.Name, "file", f.Path, "offset", offset,
		"reason", string(reason), "err", message, "fix", fix)
}

// tellNoText logs the first records of a file that are not valid text in its encoding.
// They are sent.
func (x *Reader) tellNoText(f *File, in record.Span) {
	if f.NoText {
		return
	}
	f.NoText = true
	about := []any{"input", f.In.Name, "file", f.Path, "offset", in.Start, "end", in.End}
	if f.In.Shaping&record.Reshaped != 0 {
		x.Logger.Warn("file has bytes that are invalid in its encoding, sending U+FFFD for them", append(about,
			"fix", "set encoding to that of the file; if it is no text, leave it out with exclude")...)
		return
	}
	x.Logger.Warn("file has records that are not valid UTF-8, sending them unchanged", append(about,
		"fix", "if it is no text, leave it out with exclude; else set encoding to that of the file, or have it written as UTF-8")...)
}

// tellMark logs that a file begins with the byte order mark of another encoding than its
// input's. If the input redacts, that is an error, since rules would find nothing.
func (x *Reader) tellMark(f *File, head []byte) error {
	err := f.In.ForeignMark(head)
	switch {
	case f.In.Redacts():
		return err
	case err == nil, f.Marked, f.In.Format == record.Avro:
		return nil
	}
	f.Marked = true
	x.Logger.Warn("byte order mark of the file does not match the encoding of its input; the file is read in the encoding of the input", "input", f.In.Name, "file", f.Path,
		"fix", notices.FixOf(err))
	return nil
}
