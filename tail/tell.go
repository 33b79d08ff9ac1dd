package tail

import (
	"time"

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

// noticeOf returns the notice about the file of a reader, and whether there is one. The caller holds mu.
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
