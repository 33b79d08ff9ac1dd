package journal

import (
	"errors"
	"log/slog"
	"time"

	"kusto-agent/internal/durable"
)

const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 10 * time.Second
)

var kind = [4]byte{'j', 'r', 'n', 'l'}

// The version of the segments written here. A reader accepts any minor one.
const (
	major = 1
	minor = 4 // 1: FileInfo.Old; 2: SpoolHas, and Segments of a snapshot; 3: Count of Removed; 4: Answered of Replay
)

// writer is the only one that writes segments. Its fields belong to its
// goroutine, and to Open before that is started and to Close after it ended.
type writer struct {
	j      *Journal
	log    *slog.Logger
	agent  [16]byte
	next   uint64 // number of the next segment
	record uint64 // number of the next entry

	seg     *durable.Segment // nil: none can be written now
	name    string           // of seg
	room    int64            // seg is full at this size
	carry   []durable.Frame  // of an abandoned segment: to be repeated in the next
	closed  []segmentFile    // segments before seg, oldest first
	damaged []string         // to be moved away once a new segment holds the state
	draft   *draft           // the segment to come, or what is left to do about the one before; nil: nothing
	inline  bool             // the next segment is begun without a draft
	removed bool             // somebody removed the segment, and maybe all history

	durable uint64    // number of the entry behind the last that is known to be durable
	grown   time.Time // when the first entry since the last sync was written; zero: none
}

// due returns when the writer has something to do without being woken: the next try to begin a segment
// after an error, or the next sync; zero: never.
func (w *writer) due() time.Time {
	switch {
	case w.seg == nil:
		return w.j.disk.RetryAt()
	case !w.grown.IsZero():
		return w.grown.Add(w.j.o.SyncEvery)
	}
	return time.Time{}
}

// turn is one round of the writer's goroutine. It goes on with the draft (the next segment) if a stage
// of it has ended. Then it writes all entries that wait, in one write, and syncs when it is time. It
// applies the entries to the state and wakes their callers. Once the journal is closed, it returns
// true and the error of the last write or sync.
func (w *writer) turn() (last bool, err error) {
	if w.draft != nil {
		select {
		case err := <-w.draft.done:
			w.step(err)
		default:
		}
	}
	last = w.j.disk.Closed()
	if !w.ready(last) {
		if last {
			w.settle()
			err = w.j.disk.Err()
		}
		return last, err
	}
	group, sync := w.take()
	err = w.append(group)
	if err == nil && (sync || last || w.syncDue()) {
		err = w.sync()
	}
	w.apply(group)
	if err != nil {
		err = w.replace(err)
	}
	if sync && err == nil {
		w.number(group)
	}
	w.release(group, err)
	if last {
		err = w.stop(err)
	}
	return last, err
}

// ready makes sure that there is a segment to write to, and returns whether there is one. If none can
// be begun, it lets the callers that wait go on with the error of the disk. now says that the
// journal is being closed: then ready does not wait for the time of the next try, and begins no draft
// of another segment.
func (w *writer) ready(now bool) bool {
	w.catchUp()
	overflow := w.j.hasOverflow()
	switch {
	case w.seg == nil && !now && time.Now().Before(w.j.disk.RetryAt()):
		w.giveUpWaiting()
		return false
	case w.seg == nil, overflow, w.inline:
		if err := w.rotate(); err != nil {
			w.giveUpWaiting()
			return false
		}
	case w.draft == nil && w.seg.Size() >= w.room && !now:
		w.begin()
	}
	return true
}

// take empties the queue and returns what was in it. sync is true if somebody waits for a sync.
func (w *writer) take() (group []*op, sync bool) {
	w.j.mu.Lock()
	defer w.j.mu.Unlock()
	group = w.j.queue
	w.j.queue, w.j.queued, w.j.given = nil, 0, 0
	for _, o := range group {
		sync = sync || o.entry == nil
	}
	return group, sync
}

// append writes the entries of a group to the current segment, without a sync. A request for a sync
// has no entry and is passed over.
func (w *writer) append(group []*op) error {
	frames := make([]durable.Frame, 0, len(group))
	for _, o := range group {
		if o.entry != nil {
			frames = append(frames, o.frame)
		}
	}
	if len(frames) == 0 {
		return nil
	}
	if w.grown.IsZero() {
		w.grown = time.Now()
	}
	return w.write(frames...)
}

// write appends frames to the current segment. If the next segment is being made, they go there too:
// at once when it only lacks its name, else later, from draft.since.
func (w *writer) write(frames ...durable.Frame) error {
	if err := w.disk(func() error { return w.seg.Append(frames...) }); err != nil || w.draft == nil {
		return err
	}
	switch d := w.draft; d.stage {
	case building:
		d.since = append(d.since, frames...)
	case naming:
		return w.disk(func() error { return d.seg.Append(frames...) })
	}
	return nil
}

// disk makes a call that may hang, so that others can tell when it does.
func (w *writer) disk(call func() error) error {
	err := w.j.disk.Call(call)
	w.removed = w.removed || errors.Is(err, durable.ErrRemoved)
	return err
}

func (w *writer) syncDue() bool {
	return !w.grown.IsZero() && time.Since(w.grown) >= w.j.o.SyncEvery
}

// sync makes the current segment durable, if anything was written since the last sync, and then
// writes a Synced entry: an unreadable entry before that one is damage, not the torn end of a write.
func (w *writer) sync() error {
	if w.grown.IsZero() {
		return nil
	}
	if err := w.disk(w.seg.Sync); err != nil {
		return err
	}
	if d := w.draft; d != nil && d.stage == naming {
		if err := w.disk(d.seg.Sync); err != nil {
			return err
		}
	}
	w.grown, w.durable = time.Time{}, w.seg.NextRecord()
	return w.mark(Synced)
}

func (w *writer) mark(k Kind) error {
	e := &Entry{Kind: k, At: w.j.o.Now()}
	return w.write(e.frame())
}

// apply applies the entries of a group, which are written now, to the state in memory.
func (w *writer) apply(group []*op) {
	w.j.mu.Lock()
	defer w.j.mu.Unlock()
	for _, o := range group {
		w.j.applyTo(o)
	}
}

// number gives each request for a sync in the group the entry number up to which all is durable. If
// another segment is about to take over, entries since its snapshot have higher numbers there: those
// are given, higher by the entries of the snapshot.
func (w *writer) number(group []*op) {
	number := w.durable
	if d := w.draft; d != nil && d.stage != closing && number > d.head.FirstRecord {
		number += 1 + uint64(d.snap.count)
	}
	w.j.mu.Lock()
	defer w.j.mu.Unlock()
	for _, o := range group {
		if o.entry == nil {
			o.number = number
		}
	}
}

// release wakes the callers who wait for the entries of a group, with the error of the write.
func (w *writer) release(group []*op, err error) {
	w.j.mu.Lock()
	defer w.j.mu.Unlock()
	for _, o := range group {
		if o.err = err; o.done != nil {
			close(o.done)
		}
	}
}

// giveUpWaiting applies all entries in the queue to the state and lets their callers go on
// with the error of the disk. The entries stay queued for the next segment, and j.given counts them:
// nobody waits for them any more.
func (w *writer) giveUpWaiting() {
	trouble := w.j.disk.Err()
	w.j.mu.Lock()
	defer w.j.mu.Unlock()
	kept := w.j.queue[:w.j.given]
	for _, o := range w.j.queue[w.j.given:] {
		w.j.applyTo(o)
		if o.err = trouble; o.done != nil {
			close(o.done)
		}
		if o.entry == nil {
			w.j.queued -= o.size()
			continue
		}
		kept = append(kept, &op{entry: o.entry, frame: o.frame, applied: true})
	}
	w.j.queue, w.j.given = kept, len(kept)
}

// stop ends the writing at Close: it finishes the work on the next segment, and marks the clean end of
// the current one. If that fails, another segment takes its place, once. err is the error of the last
// write; after one, nothing is marked.
func (w *writer) stop(err error) error {
	w.settle()
	if w.seg == nil || err != nil {
		return err
	}
	if err = w.end(); err != nil && w.replace(err) == nil {
		err = w.end()
	}
	return err
}

// end marks the clean end of the current segment, syncs and closes it.
func (w *writer) end() error {
	if err := w.mark(Stopped); err != nil {
		return err
	}
	if err := w.disk(w.seg.Sync); err != nil {
		return err
	}
	return w.disk(w.seg.Close)
}
