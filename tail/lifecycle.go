package tail

import (
	"time"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/compare"
	"kusto-agent/tail/internal/cursor"
	"kusto-agent/tail/internal/fingerprint"
	"kusto-agent/tail/internal/holes"
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/notices"
	"kusto-agent/tail/internal/records"
	"kusto-agent/tail/internal/tracker"
)

// isLast reports whether the bytes after the last line end are a whole record, because
// nothing will be written after them: a run --once ends here, the file was rotated or
// deleted and is quiet, or partial_line_wait is over.
func (w *worker) isLast(r *reader) bool {
	if r.z != nil { // a compressed file is whole, or breaks off within its last record
		return !r.isCut()
	}
	if wait := r.in.PartialLineWait.D(); wait > 0 && r.grown.Ago() >= wait {
		return true
	}
	return w.t.o.Once || w.IsOver()
}

// IsOver reports whether nobody writes to a file any more, as far as can be told: one
// that was moved away is quiet.
func (w *worker) IsOver() bool {
	r := w.job.r
	return r.z != nil || w.job.life.IsDraining() || (w.job.life.IsGone() || w.job.replaced) && w.isQuiet(r)
}

// isQuiet reports whether a file did not grow for rotate_quiet, nor leave its path so lately: until
// a writer opens the next file, it goes on in this one.
func (w *worker) isQuiet(r *reader) bool {
	quiet := r.in.RotateQuiet.D()
	return r.grown.Ago() >= quiet && (!w.job.life.IsGone() || w.job.left.Ago() >= quiet)
}

// isReplaced reports whether a file was renamed to a path that a pattern matches too, and another
// that is being read is at its first path: as a rule nothing is written to it. The caller holds mu.
func (t *Tailer) isReplaced(r *reader) bool {
	first := r.k.info.Info().First
	return r.path() != first && some(t.byPath.Get(first), func(o *reader) bool {
		return o != r && o.in.files == r.in.files && !o.life.IsGone()
	})
}

// MayGrow reports whether more may be written to a file though what it holds is sent
// without waiting for that.
func (w *worker) MayGrow() bool { return !w.t.o.Once && !w.IsOver() }

// AtEnd decides what a reader does at the end of its file. A file that has left its path is closed
// when it did not grow for rotate_quiet and all its records are safe.
func (w *worker) AtEnd() tracker.Outcome {
	t, r := w.t, w.job.r
	if w.awaitsNext(r) {
		return t.waitForFile()
	}
	switch {
	case t.o.Once:
		return tracker.Finished
	case w.job.life.IsDraining():
		return tracker.Idle
	case !w.job.life.IsGone():
		if !w.job.heard && inode.LeadsElsewhere(w.job.path, inode.Of(r.Info)) {
			t.rescanSoon() // no event tells of that, and the next rotation may come before the next periodic scan
		}
		return tracker.Idle
	case r.Offset() < r.Size || !w.isQuiet(r):
		return tracker.Idle
	case w.job.safe < r.Offset():
		return tracker.AwaitSafe // until then its descriptor is the only way back to its bytes
	}
	r.Info.Done = true
	w.retire(r, departureOf(r))
	t.o.Logger.Info("file was deleted or moved away after it was read to its end; all its records are safe", "file", w.job.path, "bytes", r.Offset())
	return tracker.Done
}

// Shrunk handles a file that seems shorter than what was read of it. It compares the content,
// because network file systems report wrong sizes.
func (w *worker) Shrunk() (tracker.Outcome, error) {
	r := w.job.r
	m, err := fingerprint.MarkAt(r.src(), r.Offset())
	switch {
	case err == nil && (r.Mark() == 0 || m == r.Mark()):
		return tracker.Idle, nil
	case err != nil && !fingerprint.IsShort(err):
		return tracker.Idle, err // it cannot be read just now
	}
	return w.Changed("file was truncated")
}

// Another process may free the part of a file that was read already, while the file is
// written to (fallocate(2)): a punched hole leaves NULs in its place, a collapsed range
// moves what follows it. Neither is content to be read.

// Changed handles a file whose bytes before the offset have changed or are missing: a hole was
// punched, whole blocks were removed at its start, or it is read from its start. why is for the
// log.
func (w *worker) Changed(why string) (tracker.Outcome, error) {
	r := w.job.r
	if r.z == nil && holes.Punched(r.f, r.Size, r.Offset()) {
		mark, err := fingerprint.MarkAt(r.f, r.Offset())
		if err != nil {
			return tracker.Idle, err
		}
		w.t.o.Logger.Info("another program punched a hole before the checkpoint, reading continues and nothing is lost", "file", w.job.path, "offset", r.Offset())
		r.Remark(mark)
		r.Checked = r.Mtime
		return tracker.More, nil
	}
	to, mark := int64(0), r.Mark()
	if mark != 0 && r.z == nil {
		to = holes.Shifted(r.f, mark, r.Offset(), r.Size, r.highest)
	}
	if to == 0 {
		return w.restart(r, why)
	}
	w.t.o.Logger.Info("another program removed the beginning of the file in place, reading continues at the moved checkpoint", "file", w.job.path, "offset", to, "was", r.Offset())
	w.t.o.Metrics.Truncation(r.in.Name, 0)
	if err := w.renew(r); err != nil {
		return tracker.Idle, err
	}
	w.records.Pass(w.file(r), to, mark)
	return tracker.More, nil
}

// loseClosed ends the reader of a file that was moved or deleted while the agent had it closed.
// Its unread bytes are lost, counted and logged.
func (w *worker) loseClosed(r *reader) tracker.Outcome {
	w.t.lose(r.File, &r.Info, w.job.path, r.Offset(), r.high, r.Skips, "file was deleted while too few descriptors were left to keep it open, its unread bytes are lost",
		"fix", "raise limits.open_files and LimitNOFILE of the unit")
	r.Info.Told = true
	w.retire(r, compare.Departure{Lost: true})
	return tracker.Done
}

// passOld skips the bytes of a file that are not to be read: for start_at: end, those before the
// last record that was complete when it was found; of a copy, all that was read of the original.
func (w *worker) passOld(r *reader) error {
	pos, mark, err := w.oldEnd(r)
	if err != nil {
		return err
	}
	if r.Info.Done { // from now on the file is read, since more may be written to it
		r.Info.Done, r.registered = false, false
	}
	if pos > r.Offset() {
		if err := w.register(r); err != nil {
			return err
		}
		w.records.Pass(w.file(r), pos, mark)
	}
	r.old = 0
	return nil
}

// oldEnd returns the offset, with its mark, up to which passOld skips.
func (w *worker) oldEnd(r *reader) (int64, record.Mark, error) {
	switch {
	case r.z != nil && r.old == r.Size:
		return r.Size, r.z.end, nil // nothing follows
	case r.z != nil, r.Info.Done: // a copy: the original was read up to there, which is the end of a record
		mark, err := fingerprint.MarkAt(r.src(), r.old)
		return r.old, mark, err
	}
	scan, err := w.records.Scanner(w.file(r))
	if err != nil {
		return 0, 0, err
	}
	border, unit := scan.Border()
	pos, err := cursor.LastEnd(r.f, min(r.old, r.Size), border, unit)
	if err != nil {
		return 0, 0, err
	}
	mark, err := fingerprint.MarkAt(r.f, pos)
	return pos, mark, err
}

// restart begins a new generation of a file that was truncated or replaced. Bytes that were seen
// before and not read are counted and logged. why is for the log.
func (w *worker) restart(r *reader, why string) (tracker.Outcome, error) {
	unread := max(r.highest-r.Offset(), 0)
	log := w.t.o.Logger.Info // as copytruncate does it each night
	if unread > 0 {
		log = w.t.o.Logger.Warn
	}
	log("file was truncated or replaced, reading it from the start", "file", w.job.path, "reason", why, "offset", r.Offset(), "unread", unread)
	w.t.o.Metrics.Truncation(r.in.Name, unread)
	return tracker.More, w.renew(r)
}

// renew ends the current generation of a reader's file and begins a new one at offset 0, which it
// registers in the journal. An error is one of reading the file.
func (w *worker) renew(r *reader) error {
	r.Info.Size = r.high
	w.t.on(renewed{r, w.t.recent.Before(r.File, r.Offset())})
	r.Cursor, r.high, r.old, r.headed = cursor.Cursor{}, 0, 0, 0
	r.registered, r.Told = false, records.Told{}
	return w.register(r)
}

// retire ends the work of a reader on its generation: the journal is told now, the tailer at the end of the
// turn (see retired). left says how the file left its path.
func (w *worker) retire(r *reader, left compare.Departure) {
	r.Info.Size = r.high
	if left.Unwanted {
		r.Info.Path = w.job.path
	}
	w.report.left = &left
	if r.registered {
		w.t.remember(r.File, r.Info.Facts())
	}
}

// retired notes how far a generation was read, so that its content is recognized under another
// name, and that r is not its reader any more. left says how the file left its path. The caller
// holds mu.
func (t *Tailer) retired(r *reader, left compare.Departure) {
	if left.Unwanted {
		r.in.unsought = true // the next scan looks for it, since it may be wanted again and have another name
		t.notices.Forget(func(s notices.Subject) bool { return s == notices.Subject{Path: r.path(), Input: r.in.Name} })
	}
	if k := r.k; k.reader == r {
		k.moveTo(r.Offset(), r.Mark())
		if len(r.Skips) > 0 || len(k.ahead) > 0 {
			k.own().ahead = r.Skips
		}
		r.in.describe(k, r.Info)
		k.reader, k.own().left = nil, left
	}
	if left.Lost {
		r.in.lost = append(r.in.lost, r.k)
		if r.registered && r.k.reader == nil {
			t.rememberSoon(r.k.file(), r.k.info) // that this was counted
		}
	}
}

// renewed is that a worker has found that the file of its reader was truncated or rewritten. It gives the reader the
// next generation, and has copies of the old content looked for.
type renewed struct {
	r    *reader
	late []byte // what was read of the old content last
}

func (e renewed) happen(t *Tailer) {
	r := e.r
	t.keepLate(r.k, e.late)
	found := time.Now()
	r.k.own().truncated, r.k.changed = found, r.shown.mtime
	for _, o := range r.part() {
		t.readyLocked(o)
	}
	if r.stream != nil {
		r.seeks = 0
	}
	t.retired(r, compare.Departure{})
	r.k.own().left = compare.Departure{At: found.UnixNano()} // not ctime: a file may show its new size before its new ctime
	r.in.truncated = append(r.in.truncated, r.k)
	r.in.lost = append(r.in.lost, r.k)
	if r.registered {
		t.rememberSoon(r.File, r.k.info) // now: a scan that finds its copy tells the journal where that is
	}
	t.rescanSoon()
	r.File = r.in.nextOf(r.File)
	if r.Info.Dated != 0 {
		r.Info.Dated = r.Mtime
	}
	r.k = newGeneration()
	r.k.own().anew = found
	r.Info.Head, r.Info.Done, r.Info.Old, r.Info.Lost, r.Info.Told = record.Head{}, false, 0, 0, false // these are of the one before
	r.k.setFile(r.in.files, r.File)
	r.k.info, r.k.reader = r.Info.Facts(), r
	r.in.known.Put(r.k)
	r.in.byNode.put(r.k)
	t.apply(r, tracker.Renewed{})
}

// nextOf returns the generation after was, the newest of its file. No number is used again, also if
// it was forgotten: the journal and the service still have ranges of it. The caller holds mu.
func (in *input) nextOf(was record.File) record.File {
	f := in.file(was.ID, was.Generation+1)
	for in.known.Get(f) != nil {
		f.Generation++
	}
	return f
}

// departureOf returns how the open file of a reader left its path; the zero departure if the file
// is compressed, not open or cannot be examined.
func departureOf(r *reader) compare.Departure {
	if r.f != nil && r.z == nil {
		if st, err := inode.In(r.f); err == nil && st.Links == 0 {
			return compare.Departure{At: st.Ctime, Deleted: true}
		} else if err == nil {
			return compare.Departure{There: true}
		}
	}
	return compare.Departure{}
}

// TimedOut reports whether the last, incomplete record of a file is no longer waited for
// although the file may grow: an event of several lines is complete after max_wait, and a
// message of a container log after rotate_quiet, because it delays the other stream.
func (w *worker) TimedOut() bool {
	switch r := w.job.r; {
	case r.in.HasEvents():
		return r.grown.Ago() >= r.in.Multiline.MaxWait.D()
	case r.in.Joins():
		return !r.OpenSince.IsZero() && time.Since(r.OpenSince) >= r.in.RotateQuiet.D()
	}
	return false
}
