package recovery

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"kusto-agent/internal/ledger"
	"kusto-agent/internal/record"
)

const (
	// patience is how long one batch is waited for before the others go on.
	patience = 10 * time.Second
	// noRoom is when memory that was too short is asked for once more.
	noRoom = 50 * time.Millisecond
	// mostAway is how many looks may be away at a disk that does not answer: each holds
	// memory.
	mostAway = 2
)

// Looked returns a channel that is closed when Run has looked once at every batch that there was when
// it began, or has ended. Files must not be tailed before that: the tailer may take a file for a copy,
// or close it, that still holds the bytes of a batch.
func (r *Recovery) Looked() <-chan struct{} { return r.looked }

// Run reads the batches in the queue from their files and sends them on, until ctx ends, however long
// a disk takes. What is left then is in the journal as begun or as missing, and the next start
// continues with it. rooms is what it needs for that.
func (r *Recovery) Run(ctx context.Context, rooms Rooms) {
	r.Rooms = rooms
	timer := time.NewTimer(r.Retry)
	defer timer.Stop()
	first := sync.OnceFunc(func() { close(r.looked) }) // when the queue is empty for the first time
	defer first()
	for ctx.Err() == nil {
		b, l, wait := r.next(time.Now())
		switch {
		case b != nil:
			r.step(ctx, b)
		case l != nil:
			r.lookUp(l)
		default:
			first()
			timer.Reset(wait)
			select {
			case <-ctx.Done():
			case <-r.wake:
			case <-timer.C:
			}
		}
	}
}

// next takes a batch or a loss (payloads that vanished from the spool) that is due at the time now. If
// there is neither, it returns how long to wait for one.
func (r *Recovery) next(now time.Time) (*batch, *loss, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy = false
	for len(r.later) > 0 && !now.Before(r.later[0].again) {
		r.due = append(r.due, r.later[0])
		r.later = r.later[1:]
	}
	wait := r.Retry
	if len(r.later) > 0 {
		wait = r.later[0].again.Sub(now)
	}
	for i, l := range r.losses {
		if !now.Before(l.again) {
			r.losses = append(r.losses[:i:i], r.losses[i+1:]...)
			r.busy = true
			return nil, &l, 0
		}
		wait = min(wait, l.again.Sub(now))
	}
	if len(r.due) == 0 {
		return nil, nil, wait
	}
	b := r.due[0]
	r.due = r.due[1:]
	r.busy = true
	return b, nil, 0
}

// wait puts a batch off for r.Retry, because of why, and logs that reason unless it was logged last.
func (r *Recovery) wait(b *batch, why error) {
	if text := why.Error(); text != b.told {
		b.told = text
		r.logOf(b.Payload).Warn(waits[b.kind], "err", why, "fix", "let the agent read the file, or configure the input again; the agent retries by itself")
	}
	r.mu.Lock()
	b.absent = errors.Is(why, ErrNotConfigured)
	b.again = time.Now().Add(r.Retry)
	r.later = append(r.later, b)
	r.mu.Unlock()
}

// putOff puts a loss (payloads that vanished from the spool) off for r.Retry, because the journal
// cannot be read or written now (why).
func (r *Recovery) putOff(l *loss, why error) {
	r.Logger.Warn("journal could not be read, the recovery of missing spool payloads will retry", "batches", len(l.ids), "err", why,
		"fix", "check the disk of state_dir: is it full, read-only or failing")
	l.again = time.Now().Add(r.Retry)
	r.mu.Lock()
	r.losses = append(r.losses, *l)
	r.mu.Unlock()
}

// lookUp finds out from the journal what the payloads were that the spool has lost, and queues them to
// be read from their files. One that the journal does not know ends as lost, and so do records of l
// that belong to no payload. If the journal cannot be read now, or not all of it is written, it is
// tried again later.
func (r *Recovery) lookUp(l *loss) {
	asked := make(map[record.BatchID]bool, len(l.ids))
	for _, id := range l.ids {
		asked[id] = true
	}
	unwritten := r.Frames.Sync() // InSpool reads the disk: after an error it may miss entries
	known, err := r.Frames.InSpool(func(id record.BatchID) bool { return asked[id] })
	if err != nil {
		r.putOff(l, err)
		return
	}
	var unknown []record.BatchID
	for _, id := range l.ids {
		p := known[id]
		if p == nil && unwritten != nil {
			unknown = append(unknown, id)
			continue
		}
		if p == nil {
			r.end(id, record.SourceGone)
			continue
		}
		_ = r.Frames.Replay(id, p.Attempt) // so that the next start notices too that it is missing
		p.Inputs(func(input string, n int) { l.what[input] -= n })
		r.add(&batch{Payload: p, kind: OfSpool})
	}
	if len(unknown) > 0 { // the history may lack them only as long as it cannot be written
		l.ids = unknown
		r.putOff(l, unwritten)
		return
	}
	for input, n := range l.what {
		if n > 0 {
			r.Logger.Error("records vanished from the spool and are lost: their source files are gone too", "input", input, "records", n,
				"err", errForgotten)
			r.Books.Unspooled(input, n)
			r.Books.Dropped(record.Lot{Input: input, Route: l.route, Records: n}, ledger.SourceGone)
		}
	}
}

// end writes to the journal how a payload that was in the spool has ended. The recovery then no longer
// holds its id, so that the journal may forget it.
func (r *Recovery) end(id record.BatchID, how record.Outcome) {
	_ = r.Journal.EndReplay(id, how)
	r.letGo(id)
}

// letGo no longer holds the id of a payload: the journal may forget it.
func (r *Recovery) letGo(id record.BatchID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.held, id)
}

// look is what a look at the files of a batch found.
type look struct {
	settings Settings
	finding  Finding
	parts    []*record.Payload // each with its body, not compressed
	refused  []record.Rejected
	empty    []record.Extent
	lost     *record.Payload // what is gone of it; nil: nothing
	err      error
}

// step handles one batch: it decides with Judge, and looks at the files of the batch if the
// decision needs that. Then it puts the batch off, ends it, or hands on what was read. The
// memory that lookAt reserved is free again when step returns.
func (r *Recovery) step(ctx context.Context, b *batch) {
	settings, err := r.settings(b)
	switch Judge(b.kind, settings, Unread) {
	case Wait:
		r.wait(b, err)
		return
	case EndGone:
		r.endGone(b, errForgotten)
		return
	}
	// Its body would have to be kept in memory, and no more bodies may be.
	if r.shelvedBefore(b.ID) && r.isReadyFull() {
		r.wait(b, errNoTurn)
		return
	}
	found, ok := r.lookAt(ctx, b, settings)
	if !ok {
		return // it waits, or the run ends
	}
	defer r.Packer.Unreserve()
	act := Judge(b.kind, found.settings, found.finding)
	isUnserved := func(p *record.Payload) bool { return !r.Sender.Serves(p.Route.Cluster) }
	if act != Wait && act != EndGone && slices.ContainsFunc(found.parts, isUnserved) {
		act, found.err = Wait, errUnserved
	}
	switch act {
	case Wait, Look:
		r.wait(b, found.err)
	case EndGone:
		r.endGone(b, found.err)
	default:
		r.carryOn(b, act, found)
	}
}

// errForgotten says that nobody knows where a payload came from.
var errForgotten = errors.New("the journal does not reach back to it")

var errNoTurn = errors.New("others are sent first from a spool that can be written and not read")

// isReadyFull reports whether as many bodies are kept in memory as may be. They are of payloads that
// the spool could write and not read.
func (r *Recovery) isReadyFull() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ready) >= mostReady
}

var errUnserved = errors.New("no input sends to its cluster")

// settings returns how the inputs of a batch are configured at present and, unless they are unchanged,
// an error that says why the batch cannot be sent as it was.
func (r *Recovery) settings(b *batch) (Settings, error) {
	switch err := r.Source.Shaped(b.Payload); {
	case errors.Is(err, ErrReshaped):
		return Reshaped, err
	case err != nil:
		return Absent, err
	case !r.Sender.Serves(b.Route.Cluster):
		return Unserved, errUnserved
	}
	return Same, nil
}

// lookAt reads the files of a batch in a goroutine, after reserving memory that the caller must
// release if ok is true. It returns false if ctx ends, or if the disk does not answer within patience:
// then the batch is put off, the read goes on, and a later call picks up its result.
func (r *Recovery) lookAt(ctx context.Context, b *batch, settings Settings) (found look, ok bool) {
	if b.look == nil {
		if r.away >= mostAway { // as many reads as may hang
			r.wait(b, errSlow)
			return found, false
		}
		if !r.reserve(ctx) {
			return found, false
		}
		done := make(chan look, 1)
		b.look = done
		r.away++
		// Started here, ends when the disk answers; waited for until patience, and
		// asked for again every 10 s.
		go func() { done <- r.read(b.Payload, settings) }()
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case found = <-b.look:
		b.look = nil
		r.away--
		return found, true
	case <-ctx.Done():
		return found, false
	case <-timer.C:
		r.wait(b, errSlow)
		return found, false
	}
}

var errSlow = errors.New("its disk does not answer")

// reserve waits until memory for one payload is reserved and returns true, or false if ctx ends
// before. The memory is given back with Packer.Unreserve.
func (r *Recovery) reserve(ctx context.Context) bool {
	tick := time.NewTicker(noRoom)
	defer tick.Stop()
	for !r.Packer.Reserve(false) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// read reads a batch from its files, or what is left of it, and returns what it found. It changes
// neither the journal nor the spool. settings says whether the batch was made with the present
// settings.
func (r *Recovery) read(p *record.Payload, settings Settings) look {
	found := r.readAs(p, settings)
	switch {
	case errors.Is(found.err, ErrReshaped) && settings == Same: // the settings were reloaded just now
		return r.read(p, Reshaped)
	case errors.Is(found.err, ErrNotConfigured):
		found.settings = Absent
	case errors.Is(found.err, ErrGone):
		return r.readPart(p, settings, found.err)
	}
	return found
}

// readAs reads a whole batch, with its old settings or, if these have changed, with the present ones.
// In the first case finding says whether the body is the same as before. An error is in the result.
func (r *Recovery) readAs(p *record.Payload, settings Settings) look {
	found := look{settings: settings, finding: NotNow}
	if settings == Reshaped {
		var what *Reading
		if what, found.err = r.Source.Anew(p); found.err == nil {
			found.parts, found.refused, found.empty, found.finding = what.Parts, what.Refused, what.Empty, Here
		}
		return found
	}
	own, same := *p, false
	if own.Body, same, found.err = r.Source.Read(&own); found.err != nil {
		return found
	}
	if found.parts, found.finding = []*record.Payload{&own}, Here; !same {
		found.finding = Other
	}
	return found
}

// readPart reads what is left of a batch of which some files are gone, and returns the rest as lost.
// cause is the error that said that they are gone. If nothing is left, the finding is Gone.
func (r *Recovery) readPart(p *record.Payload, settings Settings, cause error) look {
	found := look{settings: settings, finding: Gone, err: cause}
	left, gone, err := r.Source.Divide(p)
	switch {
	case errors.Is(err, ErrGone):
		return found
	case err != nil:
		found.finding, found.err = NotNow, err
		return found
	case len(left.Pieces) == 0:
		return found
	case len(gone.Cover) == 0: // the file came back since; the whole batch is read again later
		found.finding = NotNow
		return found
	}
	if found = r.readAs(&left, settings); found.err != nil {
		found.finding = NotNow // the whole batch is read again later
		return found
	}
	gone.RawBytes = int(p.Share(gone.Records))
	found.finding, found.lost, found.err = Part, &gone, cause
	return found
}
