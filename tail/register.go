package tail

import (
	"time"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/fingerprint"
)

// register records the file in the journal before that gets any range of it, and again if the file is large
// enough for a longer head, or if that was long ago. From then on, and so before the file is read, a scan
// recognises a copy of it by the head. An error is one of reading the file.
func (w *worker) register(r *reader) error {
	grown := fingerprint.HeadLen(r.Size) > max(r.Info.Head.Len, r.headed)
	if r.registered && !grown && !w.isSeenLongAgo(r) {
		return nil
	}
	var head record.Head
	var err error
	if r.z != nil && r.z.head.Len > 0 {
		head = r.z.head
	} else if head, err = fingerprint.HeadOf(r.src(), r.Size); err != nil {
		return err
	}
	switch is, err := r.OtherBefore(r.plain()); {
	case err != nil:
		return err
	case is:
		head = r.Info.Head // the file was rewritten: the old head is kept, for this is noticed by it
	}
	if at := w.job.path; r == w.job.r && !w.job.life.IsOutside() && at != r.Info.Path { // the reader of the file before tells its own
		r.Info.Path, r.Info.Real = at, finder.Elsewhere(finder.Leads(at), at)
	}
	r.Info.Head, r.Info.Size = head, r.Size
	r.headed = fingerprint.HeadLen(r.Size)
	r.registered = true
	now := described{r: r}
	w.t.on(&now)
	w.t.remember(r.File, now.facts)
	return nil
}

// isSeenLongAgo reports whether the journal does not know that the file of the turn was at its path lately. What
// was read before it may be forgotten half that time later, and is known by then to be older.
func (w *worker) isSeenLongAgo(r *reader) bool {
	return r == w.job.r && r.Info.Seen != 0 && !w.job.life.IsGone() && time.Since(time.Unix(0, r.Info.Seen)) > r.in.ForgetAfter.D()/2
}

// Register is register for the reader of the turn.
func (w *worker) Register() error { return w.register(w.job.r) }

// described is that the worker of a reader has found out more about its file (Info).
type described struct {
	r     *reader
	facts record.Facts // for the journal
}

func (e *described) happen(t *Tailer) {
	if !e.r.life.IsGone() {
		e.r.Info.Seen = max(e.r.Info.Seen, t.seenBy(e.r.life.FoundBy()))
	}
	e.r.in.describe(e.r.k, e.r.Info)
	e.facts = e.r.k.info
}
