package tail

import (
	"time"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/notices"
	"kusto-agent/tail/internal/trusted"
)

// ErrPlanted says that a link is not followed because of who made it.
var ErrPlanted = trusted.ErrPlanted

// tellRead logs, once, why the turn of a reader could not read its file (err), and after that,
// once, that it can be read again (err is nil).
func (w *worker) tellRead(r *reader, err error) {
	if err != nil || w.job.noted {
		w.t.notices.Report(notices.Subject{Path: w.job.path, Input: r.in.Name}, err)
	}
}

// tell reports what is wrong with a path, whatever the input; nil: nothing.
func (t *Tailer) tell(path string, err error) { t.notices.Report(notices.Subject{Path: path}, err) }

// noticeOf returns the notice about the file of a reader, and whether there is one. The caller holds
// mu.
func (t *Tailer) noticeOf(r *reader) (notices.Notice, bool) {
	return t.notices.Of(notices.Subject{Path: r.path(), Input: r.in.Name})
}

// awayFor is how many times rotate_quiet an input whose files are gone matches
// nothing before that is told: between a rotation and the next file nothing is amiss.
const awayFor = 12

// tellMatched logs when an input has had no file for a while, and when it has files again. matched
// says that the scan has found a path for it.
func (t *Tailer) tellMatched(in *input, matched bool) {
	whole := notices.Subject{Input: in.Name}
	switch {
	case matched:
		in.scan.matched = time.Now()
		t.notices.Report(whole, nil)
	case time.Since(in.scan.matched) >= awayFor*in.RotateQuiet.D():
		t.notices.Report(whole, notices.ErrNoMatch)
	}
}

// tellQuarantined logs the first record of a file that goes to quarantine; the others are
// only counted.
func (w *worker) tellQuarantined(r *reader, offset int64, reason record.Reason, message string) {
	if r.Quarantined {
		return
	}
	r.Quarantined = true
	fix := "see that format is that of the file; the records are kept in state_dir/quarantine"
	switch {
	case reason == record.TooLong && r.in.Format == record.Avro:
		fix = "raise batch.max_size, or have smaller blocks written; their beginnings are kept in state_dir/quarantine"
	case reason == record.TooLong:
		fix = "raise max_record_size if such records are wanted; their beginnings are kept in state_dir/quarantine"
	case reason == record.Grown:
		fix = "raise batch.max_size, or add less with fields; the records are kept in state_dir/quarantine"
	}
	w.t.o.Logger.Warn("file has bad records, they go to quarantine; this is the first", "input", r.in.Name, "file", w.job.path, "offset", offset,
		"reason", string(reason), "err", message, "fix", fix)
}

// tellNoText logs the first records of a file that are not valid text in its encoding.
// They are sent.
func (w *worker) tellNoText(r *reader, in record.Span) {
	if r.NoText {
		return
	}
	r.NoText = true
	about := []any{"input", r.in.Name, "file", w.job.path, "offset", in.Start, "end", in.End}
	if r.in.Shaping&record.Reshaped != 0 {
		w.t.o.Logger.Warn("file has bytes that are invalid in its encoding, sending U+FFFD for them", append(about,
			"fix", "set encoding to that of the file; if it is no text, leave it out with exclude")...)
		return
	}
	w.t.o.Logger.Warn("file has records that are not valid UTF-8, sending them unchanged", append(about,
		"fix", "if it is no text, leave it out with exclude; else set encoding to that of the file, or have it written as UTF-8")...)
}

// tellMark logs that a file begins with the byte order mark of another encoding than its
// input's. If the input redacts, that is an error, since rules would find nothing.
func (w *worker) tellMark(r *reader, head []byte) error {
	err := r.in.ForeignMark(head)
	switch {
	case r.in.Redacts():
		return err
	case err == nil, r.Marked, r.in.Format == record.Avro:
		return nil
	}
	r.Marked = true
	w.t.o.Logger.Warn("byte order mark of the file does not match the encoding of its input; the file is read in the encoding of the input", "input", r.in.Name, "file", w.job.path,
		"fix", notices.FixOf(err))
	return nil
}
