package tail

import (
	"container/list"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"kusto-agent/tail/internal/agenda"
	"kusto-agent/tail/internal/archive"
	"kusto-agent/tail/internal/arrivals"
	"kusto-agent/tail/internal/compare"
	"kusto-agent/tail/internal/cursor"
	"kusto-agent/tail/internal/fingerprint"
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/records"
	"kusto-agent/tail/internal/tracker"
)

// window is the most bytes of one file that may be read and not yet safe.
const window = 64 << 20

// reader is one generation of one file, read for one input.
type reader struct {
	in *input
	k  *generation // what is remembered of the generation; guarded by Tailer.mu

	// Guarded by Tailer.mu.
	life    tracker.File
	beside  *reader // of Tailer.byPath
	shown   shown
	resting resting
	ends
	linked bool        // it was found by a link, and events are of the folder of that
	owed   atomic.Bool // a lease was refused, and its wake call has not come yet; not guarded

	*busy // never nil, and changed by own alone
}

// busy is what few readers have at a time. Guarded by Tailer.mu.
//
// The file is opened and closed under mu. The worker that has the turn uses it without. Others may copy f
// under mu and use it without too, to compare the file: a reader that rests may lose it at any moment, to
// spare descriptors, and then the use fails with os.ErrClosed.
type busy struct {
	*reading               // owned by the worker that has its turn; nil: it rests, see rest
	at       string        // the path of the file; empty: it is that of its generation
	f        *os.File      // nil: it is not open
	z        *contents     // the same; nil: the file is not compressed
	spare    *list.Element // in Tailer.fds; nil: it is not
	polled   poll
	failed   *string         // the error of the last turn; nil: none
	arrivals *arrivals.Notes // nil: all bytes are safe
	pinned   int64           // its size when a scan last found it deleted
	leftAt   agenda.Moment   // when it was seen to have left its path
	*joint                   // to other files of its stream; never nil
}

// path is where the file is. The caller holds mu.
func (r *reader) path() string {
	if r.at != "" {
		return r.at
	}
	return r.k.info.Info().Path
}

// unbusy is shared by all readers that have nothing of it. It is never written.
var unbusy = busy{joint: &alone}

// own returns what few readers have, of this one, for writing. The caller holds mu. While a worker has the
// reader, the result is the one that the worker uses: its turn began with a call of own.
func (r *reader) own() *busy {
	if r.busy == &unbusy {
		r.busy = &busy{joint: &alone}
	}
	return r.busy
}

// sight is what the looks at a file have shown.
type sight struct {
	high    int64         // the largest size of this generation
	highest int64         // the same before the last look, which may have seen the next generation
	grown   agenda.Moment // when size or mtime last changed, or were first seen
	active  agenda.Moment // the same, but as the file tells where they were first seen
	empty   bool          // it was never seen to hold anything
}

// notes are what the journal knows of a generation.
type notes struct {
	registered bool
	headed     int   // of so many bytes a head was taken last; NULs have none
	old        int64 // >0: what lies before this is not to be read, see passOld
}

// shown is what the status tells of a reader.
type shown struct {
	size   int64
	mtime  int64
	grown  agenda.Moment
	active agenda.Moment
}

// ends are what the status tells of the end of a file.
type ends struct {
	atEnd    bool
	reserved bool // it ends with NULs, in whose place something may be written
}

// why is the error of the last turn; empty: there was none.
func (r *reader) why() string {
	if r.failed == nil {
		return ""
	}
	return *r.failed
}

// job is what a worker is told of a reader when its turn begins. What changes meanwhile
// gives the reader another turn.
type job struct {
	r         *reader
	todo      tracker.Action // Read, CloseUnwanted or Close
	life      tracker.File
	path      string
	left      agenda.Moment // see busy
	replaced  bool          // see isReplaced
	asked     bool          // see mayBeAsked
	succeeded bool          // another reader has its generation
	noted     bool          // there is a notice about its file
	heard     bool          // events tell what becomes of its file
	safe      int64
}

// report is what a worker tells of the reader when its turn ends.
type report struct {
	next   tracker.Outcome
	failed *string            // why the turn came to nothing; nil: it did not
	moved  bool               // the journal has still to know the new name
	left   *compare.Departure // the reader's work on its generation has ended; nil: it has not
	begun  bool               // it waits no longer for the file before in its stream
	others []*reader          // of its stream that have something new to do
	grown  *grown             // its file, which was empty before; nil: it was not, or still is
}

// worker takes turns of readers. It belongs to one goroutine.
type worker struct {
	t       *Tailer
	job     job
	report  report
	era     uint64 // that of what records keeps
	records *records.Reader
	at      records.File // see file
}

// file is the open file of a reader, for reading records of it. It is valid until the next call.
func (w *worker) file(r *reader) *records.File {
	w.at = records.File{Reading: &r.Reading, In: r.in.Compiled, Path: w.job.path, Src: r.src(), Plain: r.plain(), Cut: r.isCut(), Owner: w}
	if c := r.carry; c != nil {
		w.at.Carried = c.Carried
	}
	return &w.at
}

// turn is one turn of a worker with a file: it handles what happened to the file since the last one, and
// then goes on with its content. The order is that of what has to be certain first: that it is the file that
// was read, that the journal has it, and where in it reading begins. An error is logged as the reason why
// the file is not read.
func (w *worker) turn(r *reader) (tracker.Outcome, error) {
	if r.f == nil && w.isUnchanged(r) {
		return tracker.Idle, nil
	}
	st, err := w.look(r)
	switch {
	case errors.Is(err, errMoved) && w.job.life.IsGone():
		return w.loseClosed(r), nil
	case errors.Is(err, errMoved):
		w.t.rescanSoon() // which tells whether it is gone
		return tracker.Idle, nil
	case errors.Is(err, archive.ErrChanged):
		return w.repacked(r)
	case err != nil:
		return tracker.Idle, err
	}
	w.checkLent(r)
	if st.Size < r.Offset() {
		return w.Shrunk()
	}
	if r.empty && st.Size > 0 && w.endIfCopy(r, st) {
		return tracker.Yielded, nil
	}
	if w.report.moved {
		r.registered, w.report.moved = false, false
	}
	if err := w.register(r); err != nil { // before it is read, and empty files too: it may be moved while nobody looks
		return tracker.Idle, err
	}
	if r.z != nil && r.Offset() < st.Size && !w.t.mayUnpack(r) {
		return tracker.Parked, nil
	}
	if r.old > 0 {
		if err := w.passOld(r); err != nil {
			return tracker.Idle, err
		}
	}
	if err := r.SkipDone(r.src(), func() (bool, error) { return r.OtherBefore(r.plain()) }); errors.Is(err, cursor.ErrChanged) {
		return w.restart(r, "content changed before the position")
	} else if err != nil {
		return tracker.Idle, err
	}
	if !w.startInStream(r) {
		return w.t.waitForFile(), nil
	}
	return w.goOn(r)
}

// goOn reads a bounded number of bytes from the offset on, or does what follows at the end of the file, or of
// that part of it that can be read now.
func (w *worker) goOn(r *reader) (tracker.Outcome, error) {
	if r.Long.At > r.Size {
		r.Long = cursor.Long{}
	}
	if r.z == nil { // a compressed file is not written to in place
		r.NULs.Review(r.f, r.Size)
	}
	last, end := w.isLast(r), r.End(r.Size)
	if end < r.Size && w.IsOver() {
		end = r.Size
	}
	r.Quiet = (w.TimedOut() || r.isCut()) && r.Settled != end
	if w.awaitsNext(r) {
		last, r.Quiet = false, false
	}
	ended := r.Offset() == end || !last && !r.Quiet && r.Stuck == end
	switch {
	case (ended || r.Long.At > 0 || 0 < r.Offset() && r.Offset() <= fingerprint.Small) && r.Rewritten(r.plain()):
		return w.Changed("content changed before the position")
	case r.Long.At > 0:
		return w.records.PassLong(w.file(r), last)
	case ended && r.z != nil && r.Offset() < r.Size:
		return w.GiveUpRest()
	case ended:
		return w.AtEnd(), nil
	}
	if r.Offset()-w.job.safe >= window {
		return tracker.AwaitSafe, nil
	}
	return w.records.Read(w.file(r), last)
}

// look updates what the reader knows of its file, and opens it if need be. The size of a compressed
// file is that of its content. The error is errMoved if the file is not found, archive.ErrChanged
// if a compressed file has changed, or another one of the file system.
func (w *worker) look(r *reader) (inode.Status, error) {
	if r.f == nil {
		if err := w.reopen(r); err != nil {
			return inode.Status{}, err
		}
	}
	st, err := w.t.stat(r.f)
	if err != nil {
		return st, err
	}
	if r.z != nil {
		if !r.z.form().isOf(st) {
			return st, archive.ErrChanged
		}
		st.Size = r.z.Size()
	} else if st.Node != inode.Of(r.Info) {
		now := copiedUp{r: r, st: st, handle: inode.Handle(r.f)}
		w.t.on(&now)
		w.report.moved = w.report.moved || now.followed
	}
	if st.Size != r.Size || st.Mtime != r.Mtime {
		r.Size, r.Mtime, r.grown, r.Stuck = st.Size, st.Mtime, agenda.Now(), 0
		r.active = r.grown
	}
	r.highest, r.high = r.high, max(r.high, st.Size)
	return st, nil
}

// errMoved says that a file is not to be found in its folder any more.
var errMoved = errors.New("file was moved or deleted")

// reopen opens the file of a reader again, which was closed because too many files were open: at
// its path, or under another name in its folder. The error is errMoved if it is at neither.
func (w *worker) reopen(r *reader) error {
	info := r.Info
	if r == w.job.r { // else it is that of another file of the stream as the journal has it
		info.Path = w.job.path
	}
	path, ok := r.in.folders.FindInfo(info)
	if !ok {
		return fmt.Errorf("reopen %q: %w", info.Path, errMoved)
	}
	f, st, err := inode.Open(path)
	if err != nil {
		return err
	}
	if !st.SameIn(inode.Of(info)) {
		f.Close()
		return fmt.Errorf("reopen %q: %w", path, errMoved)
	}
	w.t.on(opened{r, f})
	return nil
}

// opened is that the worker of a reader has opened its file.
type opened struct {
	r *reader
	f *os.File
}

func (e opened) happen(t *Tailer) {
	e.r.own().f = e.f
	t.fds.open.Add(1)
}

// Lease asks the batcher for room to read want bytes. nil without an error: there is none, and the
// reader gets a turn when there is. Until then it does not ask again, since each event of a busy
// file would add a call.
func (w *worker) Lease(want int) (Lease, error) {
	r := w.job.r
	if r.owed.Swap(true) {
		return nil, nil
	}
	t := w.t
	l, err := t.o.Sink.Lease(r.in.Route, want, func() {
		r.owed.Store(false)
		t.ready(r)
	})
	if l != nil || err != nil {
		r.owed.Store(false)
	}
	return l, err
}
