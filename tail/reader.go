package tail

import (
	"bytes"
	"container/list"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"kusto-agent/internal/format"
	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/agenda"
	"kusto-agent/tail/internal/archive"
	"kusto-agent/tail/internal/arrivals"
	"kusto-agent/tail/internal/compare"
	"kusto-agent/tail/internal/cursor"
	"kusto-agent/tail/internal/fingerprint"
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/reads"
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
	Size    int64 // at the last look
	high    int64 // the largest size of this generation
	highest int64 // the same before the last look, which may have seen the next generation
	Mtime   int64
	Checked int64         // mtime when the bytes before offset were last compared with mark
	grown   agenda.Moment // when size or mtime last changed, or were first seen
	active  agenda.Moment // the same, but as the file tells where they were first seen
	empty   bool          // it was never seen to hold anything
}

// notes are what the journal and the log know of a generation.
type notes struct {
	registered bool
	headed     int   // of so many bytes a head was taken last; NULs have none
	old        int64 // >0: what lies before this is not to be read, see passOld
	toldOf
}

// toldOf is what was logged of a generation, once: see tell.go.
type toldOf struct{ Quarantined, NoText, Marked, Holey bool }

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
	t        *Tailer
	job      job
	report   report
	era      uint64 // that of its scanners
	scanners map[*input]*format.Scanner
	scratch  []byte
	found    format.Chunk
	chunk    record.Chunk
	rejected []record.Rejected
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
		return w.shrunk(r)
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
	if err := r.SkipDone(r.src(), r.otherBefore); errors.Is(err, cursor.ErrChanged) {
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
	if end < r.Size && w.isOver(r) {
		end = r.Size
	}
	r.Quiet = (r.recordTimedOut() || r.isCut()) && r.Settled != end
	if w.awaitsNext(r) {
		last, r.Quiet = false, false
	}
	ended := r.Offset() == end || !last && !r.Quiet && r.Stuck == end
	switch {
	case (ended || r.Long.At > 0) && r.rewritten():
		return w.changed(r, "content changed before the position")
	case r.Long.At > 0:
		return w.passLong(r, last)
	case ended && r.z != nil && r.Offset() < r.Size:
		return w.giveUpRest(r)
	case ended:
		return w.atEnd(r), nil
	}
	if r.Offset()-w.job.safe >= window {
		return tracker.AwaitSafe, nil
	}
	if r.carry != nil {
		return w.readCarried(r, last)
	}
	return w.read(r, last)
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

// rewritten reports whether the bytes before the offset have changed, or the beginning of a file of which
// nothing was read. Reading notices that by itself; this is for turns that do not read.
func (r *reader) rewritten() bool {
	if r.Mtime == r.Checked {
		return false
	}
	is, err := r.otherBefore()
	if err == nil && !is {
		r.Checked = r.Mtime
	}
	return is
}

// otherBefore reports whether the bytes that were read of a file have changed; see cursor.IsRewritten.
// Those of a compressed file were compared before it was read.
func (r *reader) otherBefore() (bool, error) {
	if r.z != nil {
		return false, nil
	}
	return r.IsRewritten(r.f, r.Info.Head)
}

// beginsOtherwise reports whether data, read at offset 0, is not the known beginning: the file was
// rewritten since it was found.
func (r *reader) beginsOtherwise(data []byte) bool {
	if r.Offset() > 0 || r.z != nil || r.Info.Head.Len == 0 {
		return false
	}
	var from io.ReaderAt = bytes.NewReader(data)
	if len(data) < r.Info.Head.Len {
		from = r.f
	}
	is, _ := r.IsRewritten(from, r.Info.Head) // an error comes again at the next read
	return is
}

// read reads from the offset to the end of the file, of the payload, or to the
// next range that needs no reading, whichever comes first.
func (w *worker) read(r *reader, last bool) (tracker.Outcome, error) {
	end := r.Size
	if len(r.Skips) > 0 && r.Skips[0].Start <= end {
		end, last = r.Skips[0].Start, true // only whole records lie between such ranges
	}
	most := int64(w.t.o.Sink.Most(r.in.Route))
	if r.NULs.At > 0 {
		most = min(most, besideNULs)
	}
	want := r.Bounds.Want(min(end-r.Offset(), int64(r.in.MaxSize-1)), reads.Limits{Most: most, Block: int64(r.in.MaxSize / 2), Kept: keptRead})
	lease, err := w.lease(r, int(want))
	switch {
	case err != nil:
		return tracker.Idle, err
	case lease == nil && r.rewritten():
		return w.changed(r, "content changed before the position")
	case lease == nil:
		return tracker.Parked, nil
	}
	defer lease.Done()
	// Before the read, which sees whether the file is still the same.
	scan, err := w.scanner(r)
	if err != nil {
		return tracker.Idle, err
	}
	buf := lease.Block()
	if buf == nil {
		buf = w.buffer(int(want))
	}
	// The bytes before the offset come with the same read: if they are not the
	// ones that were there, the file was cut or rewritten since.
	before := min(r.Offset(), record.MarkLen)
	n, err := r.src().ReadAt(buf[record.MarkLen-before:record.MarkLen+want], r.Offset()-before)
	if err != nil && !errors.Is(err, io.EOF) {
		return tracker.Idle, err
	}
	if int64(n) < before {
		return w.shrunk(r)
	}
	if m := fingerprint.MarkOf(buf[record.MarkLen-before : record.MarkLen]); r.Mark() != 0 && m != r.Mark() {
		return w.changed(r, "content changed before the position")
	}
	r.Checked = r.Mtime
	if r.Offset() == 0 {
		if err := w.tellMark(r, buf[record.MarkLen:record.MarkLen+n]); err != nil {
			return tracker.Idle, err
		}
	}
	data, whole := buf[record.MarkLen:record.MarkLen+int64(n)-before], int64(n)-before == end-r.Offset()
	if whole && r.z == nil {
		w.t.recent.Put(r.File, r.Offset(), data)
	}
	if n := r.in.TextLen(data, r.Offset()); n < len(data) && end == r.Size {
		framed, ok := r.NULs.Frame(r.Offset(), n, len(data), r.Size, w.isOver(r))
		if !ok {
			return w.meetNULs(r)
		}
		if framed < len(data) {
			end, whole = r.Offset()+int64(framed), true
			data = data[:framed]
		}
	}
	if last && whole && w.mayGrow(r) {
		if n := r.in.WholeUnits(data); n < len(data) {
			if n == 0 {
				r.Stuck = end // the rest of a character is still to come
				return w.atEnd(r), nil
			}
			end, data = r.Offset()+int64(n), data[:n]
		}
	}
	scan.SetQuiet(whole && r.Quiet)
	if whole && r.Quiet {
		r.Settled = end
	}
	return w.frame(r, lease, scan, buf[:record.MarkLen+len(data)], last && whole)
}

// lease asks the batcher for room to read want bytes. nil without an error: there is none, and the
// reader gets a turn when there is. Until then it does not ask again, since each event of a busy
// file would add a call.
func (w *worker) lease(r *reader, want int) (Lease, error) {
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

// keptScratch is the most bytes a worker keeps for reads to come: no lease
// counts them.
const keptScratch = 1 << 20

// keptRead is the most bytes that are read into what a worker keeps.
const keptRead = keptScratch - record.MarkLen - 1

// buffer returns scratch memory for n bytes, with room before them for the bytes of which a mark is
// made, and one byte behind. It is valid until the next call; a large one is not kept.
func (w *worker) buffer(n int) []byte {
	need := record.MarkLen + n + 1
	switch {
	case need > keptScratch: // seldom: for a record that did not fit
		return make([]byte, need)
	case len(w.scratch) < need:
		w.scratch = make([]byte, min(max(need, 2*len(w.scratch)), keptScratch))
	}
	return w.scratch
}

// frame finds the whole records in buf and delivers them. The first MarkLen bytes are those before
// the offset, for fingerprints. last says that nothing follows buf in the file.
func (w *worker) frame(r *reader, lease Lease, scan *format.Scanner, buf []byte, last bool) (next tracker.Outcome, err error) {
	if r.beginsOtherwise(buf[record.MarkLen:]) {
		return w.changed(r, "content changed before it was read")
	}
	touched := false // the bytes of buf were moved about
	border, _ := scan.Border()
	cut := last && len(buf) > record.MarkLen && !bytes.HasSuffix(buf, border) && r.in.OfLines()
	for pos := record.MarkLen; pos < len(buf); {
		c := &w.found
		data := buf[pos:]
		scan.Scan(data, r.Offset(), last, r.in.MaxRecords, c)
		if c.Consumed == 0 {
			if c.Long {
				w.meetLong(r, c, data)
				return tracker.More, nil
			}
			if r.Bounds.NoRecord(pos == record.MarkLen) {
				return tracker.More, nil
			}
			r.NoteStuck(r.Offset()+int64(len(data)), time.Now())
			break
		}
		touched = touched || c.Lens != nil || len(c.Body) != c.Consumed
		cover := record.Extent{File: r.File, Span: record.Span{Start: r.Offset(), End: r.Offset() + int64(c.Consumed)}}
		if touched {
			cover.Mark, err = fingerprint.MarkAt(r.src(), cover.End)
		} else {
			end := pos + c.Consumed
			have := min(cover.End, record.MarkLen)
			cover.Mark = fingerprint.MarkOf(buf[int64(end)-have : end])
		}
		if err != nil {
			return tracker.Idle, err
		}
		direct := lease.Block() != nil && !c.Copied && len(c.Body) >= len(buf)/2
		if err := w.deliver(r, lease, c, cover, nil, direct); err != nil {
			var unkept *unkeptError
			if errors.As(err, &unkept) && r.Bounds.Unkept(c.Rejected, errors.Is(unkept.err, record.ErrStalled)) {
				return tracker.More, nil
			}
			return tracker.Idle, err
		}
		r.Bounds.Taken(int64(r.in.MaxSize))
		pos += c.Consumed
		if direct && c.Records > 0 {
			break // the block is the batcher's now
		}
	}
	if cut && r.Offset() == r.Size {
		w.t.o.Logger.Info("last record had no line end and was sent as it is", "file", w.job.path, "offset", r.Offset())
	}
	if end := r.End(r.Size); r.Offset() < end && r.Stuck != end {
		return tracker.More, nil
	}
	return w.atEnd(r), nil
}

// scanner returns the scanner of the reader's input, set up for the reader's file.
func (w *worker) scanner(r *reader) (*format.Scanner, error) {
	s := w.scanners[r.in]
	if s == nil {
		var err error
		if s, err = format.New(r.in.Options()); err != nil {
			return nil, err
		}
		w.scanners[r.in] = s
	}
	return s, r.in.Prepare(s, r.src(), r.File, &r.Info, w.t.stamp)
}

// pass moves a reader over the bytes before the offset to, of which nothing is sent: they are safe
// as soon as all before them is. mark is that of to.
func (w *worker) pass(r *reader, to int64, mark record.Mark) {
	w.t.skip(r.File, record.Span{Start: r.Offset(), End: to}, mark)
	r.Advance(to, mark)
}
