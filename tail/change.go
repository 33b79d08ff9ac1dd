package tail

import (
	"maps"
	"reflect"

	"kusto-agent/tail/internal/compare"
	"kusto-agent/tail/internal/notices"
	"kusto-agent/tail/internal/reads"
	"kusto-agent/tail/internal/tracker"
)

// Inputs can be replaced while files are being read. A reader whose input has
// other settings goes on in its open file with these, from where it has read, as
// soon as its turn has ended. One that nobody wants any more notes how far it has
// read and lets its file go. What was handed over before is acknowledged as ever,
// since that goes by the name of the input: nothing has to be waited for.

// reload passes changes to the goroutine that discovers.
type reload struct {
	changes chan *Change
	ended   chan struct{} // closed when no change is taken any more
}

// Change is a list of inputs ready to take the place of that in use.
type Change struct {
	inputs    []*input
	openFiles int
	done      chan struct{} // closed when it is in force
}

// Prepare checks a new list of inputs and returns the change to it, for Apply. openFiles is the new
// limit of open files. There must be no other change between Prepare and Apply.
func (t *Tailer) Prepare(inputs []Input, openFiles int) (*Change, error) {
	now := byName(t.inputs())
	c := &Change{openFiles: openFiles, done: make(chan struct{})}
	for _, i := range inputs {
		in := now[i.Name]
		if in == nil || !sameInput(in.Input, i) {
			var err error
			if in, err = newInput(i); err != nil {
				return nil, err
			}
		}
		c.inputs = append(c.inputs, in)
	}
	return c, nil
}

// sameInput reports whether two inputs are read and sent in the same way. The names of
// clusters do not matter: the URL is in the route.
func sameInput(a, b Input) bool {
	a.Cluster, b.Cluster = "", ""
	return reflect.DeepEqual(a, b)
}

// byName returns inputs by their names.
func byName(inputs []*input) map[string]*input {
	all := make(map[string]*input, len(inputs))
	for _, in := range inputs {
		all[in.Name] = in
	}
	return all
}

// Apply puts a change of the inputs in force and returns when it is: after the scan that is under
// way. From then on no turn begins with the old settings. If Run has ended, Apply does nothing.
func (t *Tailer) Apply(c *Change) {
	select {
	case t.reload.changes <- c:
		<-c.done
	case <-t.reload.ended:
	}
}

// change applies a change between two scans. An input takes over the files of that of the same name,
// also if it was removed earlier. Inputs that are not in the list stay in former, because records of
// theirs may still be unsent.
func (d *discovery) change(c *Change) {
	defer close(c.done)
	was, former := byName(d.t.inputs()), make(map[string]*input)
	maps.Copy(former, d.t.configured.Load().former)
	for _, in := range c.inputs {
		if was[in.Name] == nil && former[in.Name] == nil {
			d.remind(in) // a new input gets what the journal remembers of its name
		}
	}
	d.t.mu.Lock()
	defer d.t.mu.Unlock()
	for _, in := range c.inputs {
		old := was[in.Name]
		if old == nil {
			old = former[in.Name]
		}
		if old != nil && old != in {
			in.files, old.next = old.files, in
		}
		d.t.byName[in.Name] = in.files
		in.unsought = in.unsought || was[in.Name] != in // files that were left out may have been renamed meanwhile
		delete(was, in.Name)
		delete(former, in.Name)
	}
	maps.Copy(former, was)
	d.t.configured.Store(&configured{c.inputs, former})
	d.t.o.OpenFiles = c.openFiles
	d.t.watch.SetPause(lookEvery(d.t.inputs()))
	d.t.era++
	for _, in := range d.t.inputs() {
		d.regroup(in)
	}
	for name, in := range was {
		d.dismiss(name, in)
	}
}

// remind tells an input what the journal remembers of it.
func (d *discovery) remind(in *input) {
	in.scan.isNew = !d.t.o.History.InputKnown(in.Name)
	in.recall(d.t.o.Positions.Files(in.Name))
}

// regroup makes the readers of an input use its new settings, from their next turn on, and compressed
// files that wait for a reader. They leave files that are not the input's any more; one that was rotated
// or deleted is read to its end all the same. The caller holds mu.
func (d *discovery) regroup(in *input) {
	for _, p := range in.packed {
		never, was := in.Compressed == "never", p.matched
		p.matched = was && !never && in.Reads(p.path)
		p.in, p.barred = in, !p.matched && (never || in.Excludes(p.path))
		if was && !p.matched && p.first == "" {
			in.dropPacked(p)
		}
	}
	for r := range in.readers.All() {
		if r.in == in && r.life.Wish() == tracker.Keep {
			continue
		}
		wish := tracker.Keep
		if !r.life.IsGone() && !in.Reads(r.path()) || d.t.readBy(in, r.node()) != nil {
			wish = tracker.Leave
		}
		d.t.apply(r, tracker.Wished{Wish: wish})
	}
}

// dismiss makes the readers of an input that was removed leave their files, and forgets what else
// was noted for it. The caller holds mu.
func (d *discovery) dismiss(name string, in *input) {
	for n := range in.suspect {
		d.t.endSuspicion(in, n, nil)
	}
	clear(in.packed) // an inspection that is under way leads to no reader
	clear(in.scan.unopened)
	in.starts = nil
	for r := range in.readers.All() {
		d.t.apply(r, tracker.Wished{Wish: tracker.Leave})
	}
	d.t.notices.Forget(func(s notices.Subject) bool { return s.Input == name })
}

// everyInput yields the inputs of the configuration and those that were removed from it:
// records of these may still be unsent, or be read again. The caller holds mu.
func (t *Tailer) everyInput(yield func(*input) bool) {
	for _, in := range t.inputs() {
		if !yield(in) {
			return
		}
	}
	for _, in := range t.configured.Load().former {
		if !yield(in) {
			return
		}
	}
}

// adapt makes the worker and its reader use the current settings: the reader drops what it found
// out with the old ones, and goes on at its offset. The caller holds mu.
func (w *worker) adapt(r *reader) {
	if w.era != w.t.era {
		w.records.Forget()
		w.era = w.t.era
	}
	if r.in.next == nil {
		return
	}
	for r.in.next != nil {
		r.in = r.in.next
	}
	if s := r.stream; s != nil && !r.in.Carries() { // by the new settings its messages do not go on in the next file
		w.t.leaveStream(r)
		w.t.endTurn(s, r, &report{next: tracker.Idle})
	}
	r.owed.Store(false) // the room it waits for may be that of another route
	since := r.OpenSince
	r.ForgetRecord()
	if r.stream != nil {
		r.OpenSince = since // the message is waited for as before, see mayBeAsked
	}
	r.Settled = 0
	r.Bounds = reads.Bounds{}
	r.Quarantined, r.NoText, r.Marked = false, false, false
}

// closeUnwanted closes a file that its input no longer reads. The checkpoint is kept. If the file was
// deleted, its unread bytes are lost, counted and logged.
func (w *worker) closeUnwanted(r *reader) tracker.Outcome {
	t := w.t
	st, err := w.lastLook(r)
	lost := err == nil && st.Links == 0 && t.lose(r.File, &r.Info, w.job.path, r.Offset(), st.Size, r.Skips,
		"deleted file closed before its end, unread bytes are lost: its input no longer matches it",
		"fix", "before you remove an input or narrow its paths, wait until the agent has read the deleted files of that input")
	w.retire(r, compare.Departure{Unwanted: true})
	if !lost {
		t.o.Logger.Info("file closed, its input no longer matches it; its checkpoint is kept", "input", r.in.Name, "file", r.Info.Path, "offset", r.Offset())
	}
	return tracker.Yielded
}
