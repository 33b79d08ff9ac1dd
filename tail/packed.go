package tail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"kusto-agent/internal/compressed"
	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/archive"
	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/fingerprint"
	"kusto-agent/tail/internal/identity"
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/survey"
)

// A compressed file is looked through once it was quiet, to its end: only there
// is written whether it is whole. Then it is known how much is in it and whose
// content that is, and it is read like any other file, by offsets in what is in it.

// surveys are the compressed files that are to be looked through. Guarded by Tailer.mu, but for the
// channel.
type surveys struct {
	wanted   chan struct{} // there is something in the queue
	queue    []*packed
	pending  int  // these, and the one that is being looked through
	compared bool // they may be compared with what is known: the first scan has found it
}

// packed is a compressed file that is not being read. Guarded by Tailer.mu.
type packed struct {
	in            *input
	path          string
	first         string // as in adopt; that of the sighting that knew it best. Not empty: it is looked for where no pattern matches
	real          string // where the path leads
	st            inode.Status
	how           compressed.Kind
	handle        string
	since         time.Time      // unchanged
	old           bool           // start_at: end passes over it
	scan          uint64         // number of the last scan that had it
	matched       bool           // by the patterns; else it is only looked at for what it may continue
	barred        bool           // whatever it holds is not to be read
	queued        bool           // it is to be looked through, or just being so
	facts         *archive.Facts // nil: it was not looked through
	err           error          // why it is not being read
	failed        time.Time      // when it could not be inspected; zero: it could, or that was not tried
	emptied       bool           // or overwritten: one that is looked for, and not compressed any more
	due           time.Time      // when a scan that was asked for takes the next step, unless that is over
	readElsewhere bool           // its content is being read in another file
	of            *generation    // the one that is read there; nil: it is not known yet
}

// meetPacked notes a compressed file that a scan has found, and takes the next step with it (see
// advance). f stays the caller's. first is as in adopt: with compressed: never a file is noted only if no
// pattern matches its path, to find out whether unread bytes of another file are lost in it.
func (d *discovery) meetPacked(in *input, path string, f *os.File, st inode.Status, how compressed.Kind, first string) {
	never, matched := in.Compressed == "never", first == ""
	if how == compressed.Unknown && !never && time.Since(time.Unix(0, st.Ctime)) < finder.ActiveFor {
		time.AfterFunc(in.RotateQuiet.D(), d.t.rescanSoon) // its beginning is still to come
	}
	if matched && (never || how == compressed.Unknown) {
		return
	}
	handle, real := inode.Handle(f), d.leads(path, st.Node)
	d.t.mu.Lock()
	defer d.t.mu.Unlock()
	p := in.packed[st.Node]
	switch {
	case !how.IsReadable(): // no more; what is looked for waits until it is again
		if p != nil {
			p.emptied, p.err = true, nil
		}
		return
	case in.readers.Get(st.Node) != nil:
		return
	}
	in.claim(path, st.Node, handle)
	delete(in.untold, st.Node)
	if p == nil || p.st.Size != st.Size || p.st.Ctime != st.Ctime {
		was := p
		p = &packed{in: in, st: st, how: how, handle: handle, since: time.Now()}
		if was != nil {
			p.first = was.first
		}
		in.packed[st.Node] = p
	}
	if p.scan != d.t.scans.no {
		p.path, p.real, p.scan, p.matched = path, real, d.t.scans.no, matched
	}
	p.barred = !matched && (never || in.Excludes(path))
	if !matched && first != path { // it is wanted though no pattern matches it: by the next run too, if this one ends before
		p.first = first
		if in.byNode.get(st.Node) == nil && !p.barred && !in.Reads(path) {
			d.t.noteDoubt(in, record.FileInfo{Path: path, First: first, Dev: st.Dev, Inode: st.Ino, Birth: st.Birth, Handle: handle, Size: st.Size})
		}
	}
	switch k := in.byNode.get(st.Node); {
	case k == nil && in.passesOld(): // the next run has to know it, if this one ends before the file was looked through
		p.old = true
		d.t.noteDoubt(in, record.FileInfo{Path: path, First: path, Dev: st.Dev, Inode: st.Ino, Birth: st.Birth, Handle: handle, Size: st.Size, Done: true, Old: st.Size, Packed: record.Packed{Size: st.Size, Mtime: st.Mtime}})
	case k != nil && k == in.doubted(st.Node):
		p.old = k.info.Info().Old > 0 && p.isAs(k)
	}
	d.t.advance(p)
	d.t.tell(path, p.err)
}

// state is what the decision about a file goes by. The caller holds mu.
func (p *packed) state() survey.File {
	f := survey.File{Stage: p.stage(), Past: p.past(), Claim: p.claim(), Barred: p.barred, Cut: p.isCut(), Quiet: p.unchangedFor()}
	if !p.failed.IsZero() {
		f.Failed = max(time.Since(p.failed), 1)
	}
	return f
}

// stage is how far a file has come. The caller holds mu.
func (p *packed) stage() survey.Stage {
	switch {
	case p.queued:
		return survey.Queued
	case p.facts != nil:
		return survey.Inspected
	}
	return survey.Met
}

// claim is whose a file is by its path. The caller holds mu.
func (p *packed) claim() survey.Claim {
	switch {
	case p.matched:
		return survey.Matched
	case p.first != "":
		return survey.Wanted
	}
	return survey.Stray
}

// isCut reports whether the inspection found that a file breaks off. The caller holds mu.
func (p *packed) isCut() bool { return p.facts != nil && p.facts.Cut != nil }

// past says what is known of a compressed file from before. The caller holds mu.
func (p *packed) past() survey.Past {
	k := p.generation()
	switch {
	case k == nil || !p.isAs(k):
		return survey.Unseen
	case k.info.Info().Done:
		return survey.Ended
	}
	return survey.Unchanged
}

// advance takes the next step with a compressed file. The caller holds mu.
func (t *Tailer) advance(p *packed) {
	if p.stage() == survey.Inspected {
		p.readElsewhere, p.of, p.err = false, nil, nil
	}
	run := survey.Run{RotateQuiet: p.in.RotateQuiet.D(), Once: t.o.Once, Complete: t.surveys.compared}
	step, wait := p.state().Next(run)
	var x resemblance
	if step == survey.Compare {
		x = t.judge(p)
		if x.is == identity.Own && p.claim() == survey.Stray && p.mayHoldRest(x.of) {
			p.first = x.of.info.Info().First
		}
		step, wait = p.state().After(x.is, originalOf(x.of), run)
	}
	switch step {
	case survey.Await:
		if p.isCut() {
			p.err = fmt.Errorf("compressed file: %w", p.facts.Cut)
		}
	case survey.Hold:
		p.readElsewhere, p.of = true, x.of
	case survey.Inspect:
		t.queue(p)
	case survey.Resume:
		k := p.generation()
		info := k.info.Info()
		t.readPacked(p, &archive.Facts{Size: info.Size, Heads: []record.Head{info.Head}}, resemblance{of: k, is: identity.Same})
	case survey.Read:
		t.readPacked(p, p.facts, x)
	case survey.Lose:
		t.loseBarred(p, x.of)
	}
	if at := time.Now().Add(wait); wait > 0 && !t.o.Once && (p.due.Before(time.Now()) || at.Before(p.due)) {
		p.due = at
		time.AfterFunc(wait, t.rescanSoon)
	}
}

// originalOf says what became of the generation k that a compressed file was compared with. The caller
// holds mu.
func originalOf(k *generation) survey.Original {
	switch {
	case k == nil:
		return survey.NoOriginal
	case k.reader != nil:
		return survey.BeingRead
	}
	return survey.AtRest
}

// generation returns what is known of a compressed file from an earlier time. It is nil if nothing is, if
// the file has a reader, if no more is known than that the file is in doubt, or if its handle differs, which
// makes it another file with the same inode. The caller holds mu.
func (p *packed) generation() *generation {
	k := p.in.byNode.get(p.st.Node)
	if k == nil || k.reader != nil || p.in.doubted(p.st.Node) != nil || otherHandle(k.info.Info().Handle, p.handle) {
		return nil
	}
	return k
}

// isAs reports whether the compressed file has not changed since it was read as the generation k.
func (p *packed) isAs(k *generation) bool {
	was := k.info.Info().Packed
	return was.Size == p.st.Size && was.Mtime == p.st.Mtime
}

// isCopyOf reports whether what the inspected file begins with shows that it is a copy of k. Where nothing of
// k was read yet, that is what its head shows; the shortest one may be no more than a date. The caller holds mu.
func (p *packed) isCopyOf(k *generation) bool {
	if k == nil || k.position > 0 {
		return k != nil
	}
	head := k.info.Head()
	return head.Len > fingerprint.HeadLens[len(fingerprint.HeadLens)-1] && slices.Contains(p.facts.Heads, head)
}

// isUnclear reports whether it may still turn out that a file holds what another one held. Of one that is compressed
// twice, or with too large a window, it never does. The caller holds mu.
func (p *packed) isUnclear() bool {
	return (p.err != nil || p.isPending() || p.readElsewhere && p.of == nil) && !errors.As(p.err, new(compressed.NestedError)) && !errors.Is(p.err, archive.ErrWindow)
}

// isPending reports whether it is still to be found out what is in a file. The caller holds mu.
func (p *packed) isPending() bool { return !p.emptied && p.state().IsPending() }

// why returns why a compressed file is not being read; empty: it is. The caller holds mu.
func (p *packed) why() string {
	switch {
	case p.err != nil:
		return p.err.Error()
	case p.readElsewhere:
		return "what is in it is read from another file"
	case p.queued:
		return "it is looked through before it is read"
	case p.emptied:
		return "it is not compressed any more"
	case p.isPending():
		return "it has to be quiet before it is read"
	}
	return ""
}

// queue has a file inspected. The caller holds mu.
func (t *Tailer) queue(p *packed) {
	p.queued, p.facts = true, nil
	t.surveys.queue = append(t.surveys.queue, p)
	t.surveys.pending++
	select {
	case t.surveys.wanted <- struct{}{}:
	default:
	}
}

// unchangedFor is how long ago the file changed, by its ctime: gzip sets mtime to that of the
// original.
func (p *packed) unchangedFor() time.Duration {
	changed := time.Unix(0, p.st.Ctime)
	if changed.After(p.since) {
		changed = p.since // the clock was set back after the file had changed
	}
	return time.Since(changed)
}

// surveyLoop inspects the queued compressed files, one at a time, until ctx ends.
func (t *Tailer) surveyLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.surveys.wanted:
		}
		var did inspection
		for t.on(&did); did.p != nil; t.on(&did) {
			did.facts, did.err = t.lookThrough(ctx, did.p, did.path)
			if ctx.Err() != nil {
				return
			}
		}
	}
}

// inspection is one of a compressed file, and what it has found.
type inspection struct {
	p     *packed // nil: there is none
	path  string
	facts *archive.Facts
	err   error // see lookThrough
}

// happen takes the result of the inspection, if there was one, and makes it the next one.
func (did *inspection) happen(t *Tailer) {
	if did.p != nil {
		t.surveyed(did.p, did.facts, did.err)
	}
	*did = inspection{}
	if len(t.surveys.queue) > 0 {
		did.p = t.surveys.queue[0]
		did.path = did.p.path
		t.surveys.queue = slices.Delete(t.surveys.queue, 0, 1)
	}
}

// lookThrough inspects the compressed file p at path. The error is archive.ErrChanged if the file
// is not as p says, or changed meanwhile; or it is one of reading.
func (t *Tailer) lookThrough(ctx context.Context, p *packed, path string) (*archive.Facts, error) {
	f, st, err := inode.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	same := func() bool { return st.Node == p.st.Node && st.Size == p.st.Size && st.Mtime == p.st.Mtime }
	if !same() {
		return nil, archive.ErrChanged
	}
	x, err := archive.Inspect(ctx, f, p.how, st.Size, func(heads []record.Head) []int64 {
		at := places{p: p, heads: heads}
		t.on(&at)
		return at.all
	})
	if err != nil {
		return nil, err
	}
	if st, err = inode.In(f); err == nil && !same() {
		err = archive.ErrChanged
	}
	return x, err
}

// surveyed continues with a compressed file whose inspection has ended. One that changed or was
// removed meanwhile is left to the next scan. Any other error is logged. The caller holds mu.
func (t *Tailer) surveyed(p *packed, x *archive.Facts, err error) {
	p.queued, p.facts, p.err, p.failed = false, x, nil, time.Time{}
	t.surveys.pending--
	switch {
	case errors.Is(err, os.ErrNotExist):
		if p.in.packed[p.st.Node] == p && p.first == "" {
			p.in.dropPacked(p)
		}
		t.rescanSoon()
	case errors.Is(err, archive.ErrChanged) && !t.o.Once:
		t.rescanSoon()
	case err != nil:
		p.err, p.failed = fmt.Errorf("look through compressed file: %w", err), time.Now()
	case p.in.packed[p.st.Node] == p:
		t.advance(p)
	}
	t.readySeekers() // a message may go on in the file
	t.noteEnd()
	t.turns.ended.Broadcast()
	if p.err != nil {
		t.tell(p.path, p.err)
	}
}
