package tail

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/compare"
	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/identity"
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/look"
	"kusto-agent/tail/internal/notices"
	"kusto-agent/tail/internal/tracker"
)

// discovery finds files, and meets each with what is known. It belongs to one goroutine, that of
// discover.
type discovery struct {
	t       *Tailer
	own     *finder.Own // what is never read
	origins finder.Origins
	led     led
	heard   heard       // from events
	taking  finder.Cost // of files that the scan has taken up
	weight  int64       // see estimate
	weighed int64       // the one that Known was told of last
	stirred uint64      // the last scan that has found that names had changed
	meeting meeting     // see meet
}

// discover scans the folders for files until ctx ends. A run --once scans once and ends when all
// files are read.
func (d *discovery) discover(ctx context.Context) {
	for {
		d.taking = finder.Cost{}
		scan := finder.CostOf(d.rescan).Without(d.taking) // the next scan need not start readers for the same files
		if d.t.o.Once {
			d.awaitAll(ctx)
			return
		}
		if !d.untilNextScan(ctx, scan) {
			return
		}
	}
}

// awaitAll waits until a run --once has read all there is, or ctx ends.
func (d *discovery) awaitAll(ctx context.Context) {
	for {
		select {
		case <-d.t.finished:
		case <-ctx.Done():
			return
		}
		var left readWaiting
		d.t.on(&left)
		switch {
		case left.busy:
		case left.rotated:
			d.rescan()
		default:
			return
		}
	}
}

// freshEvery is after how many files a scan looks at new names of which events tell.
const freshEvery = 500

// rescan scans once: it starts readers for new files, and tells readers that files were
// renamed or deleted.
func (d *discovery) rescan() {
	w := finder.NewWalk()
	d.own.Begin()
	d.t.mu.Lock()
	d.t.scans.no++
	d.t.notices.Begin(d.t.scans.no)
	d.t.scans.began[d.t.scans.no%mostBegan] = time.Now()
	d.heard.fresh, d.t.news.fresh = nil, nil
	d.t.boundOpen()
	for _, in := range d.t.inputs() {
		in.starts = nil
		in.scan.unread = d.unreadOf(in) // before others are taken for what they hold
	}
	d.t.mu.Unlock()
	for _, in := range d.t.inputs() {
		d.scan(in, w)
	}
	d.meetRenamed()
	for _, in := range d.t.inputs() {
		in.folders.Forget()
	}
	for path, err := range w.Errs {
		d.t.notices.ReportFirst(notices.Subject{Path: path}, err)
	}
	if d.t.watch.Update(w.Passed) {
		d.t.rescanSoon()
	}
	d.t.mu.Lock()
	settled := d.t.settlePacked()
	d.t.boundPinned()
	d.t.scans.done.Add(1)
	d.t.readySeekers()
	d.t.notices.Expire(d.t.byPath.Has)
	d.t.noteEnd()
	d.estimate()
	d.t.mu.Unlock()
	d.t.turns.ended.Broadcast()
	for path, err := range settled {
		d.t.tell(path, err)
	}
	d.weigh()
}

// scan looks for the files of an input: first where patterns match, then, in phases, for the others.
func (d *discovery) scan(in *input, w *finder.Walk) {
	d.meetMoved(in)
	in.scan.renewed = nil // that of a new file of which an event told, while another input was scanned
	d.t.tellMatched(in, d.meetMatches(in, w))
	d.noteSeen(in)
	for _, p := range phases {
		d.do(p, in, w)
	}
	in.scan.pass = pass{}
}

// phase is a part of a scan of an input. First, while mu is held, it takes over what the phase before has found
// out, and what it asks about itself; then it looks at files.
type phase struct {
	take func(d *discovery, in *input, w *finder.Walk)
	look func(d *discovery, in *input)
}

func (d *discovery) do(p phase, in *input, w *finder.Walk) {
	d.t.mu.Lock()
	p.take(d, in, w)
	d.t.mu.Unlock()
	p.look(d, in)
}

// phases are those of every scan, in their order: files that are known and were not found where patterns match,
// copies of truncated ones, compressed copies of what is left of others, files that are gone, and what was
// rotated after them.
var phases = [...]phase{
	{(*discovery).takeUnsettled, (*discovery).findUnsettled},
	{(*discovery).takeLost, (*discovery).findPacked},
	{(*discovery).takeUnmet, (*discovery).meetStrays},
	{(*discovery).takeAbsent, (*discovery).lookAtAbsent},
	{(*discovery).takeAway, (*discovery).findRotated},
}

// pass is what the phases of the scan under way hand on.
type pass struct {
	unread   []unfinished           // by earlier runs
	again    []suspicion            // files that may be copies
	cut      []*candidate           // truncated generations of which copies are looked for
	gone     []*generation          // of the unread ones, where nothing has what is left of them
	settled  []*candidate           // what was left of them is read in copies, as files of their own
	lost     []record.FileInfo      // of which compressed copies are looked for
	wanted   []stray                // compressed files that are looked for themselves
	removed  []inode.Node           // of these, those that are gone for sure
	strays   []stray                // compressed files that were found
	absent   []absence              // readers whose files were not found
	vanished []vanishing            // files that may be copies and were not found
	missing  []missing              // generations that have had no reader for long
	away     []rotated              // beside which others may have been rotated
	renewed  map[inode.Node]*reader // see readyCopiedUp; nil: not asked for yet
	paths    map[string]bool        // of known files; nil: not asked for yet
}

// takeUnsettled takes over what a scan has to ask about when all that patterns match was met: files that may be
// copies, and truncated generations of which copies are to be looked for. It also notes what became of the
// files that no earlier run has read to their end. The caller holds mu.
func (d *discovery) takeUnsettled(in *input, _ *finder.Walk) {
	p := &in.scan.pass
	for i, u := range p.unread {
		if u.at == "" && in.readers.Get(inode.Of(u.info)) == nil {
			p.unread[i].lost = u.candidate(d.t.scans.no)
		}
	}
	for _, k := range in.truncated {
		p.cut = append(p.cut, k.candidate(d.t.scans.no))
	}
	in.truncated = nil
	p.again = slices.SortedFunc(maps.Values(in.suspect), func(a, b suspicion) int { return cmp.Compare(a.since, b.since) })
}

func (d *discovery) findUnsettled(in *input) {
	d.askAgain(in)
	d.findMoved(in)
	d.findCopies(in)
}

// meetMatches meets every path that the walk finds for an input, and reports whether there is one. A
// scan of many files looks at what events tell of meanwhile.
func (d *discovery) meetMatches(in *input, w *finder.Walk) bool {
	n, heard := 0, 0
	for s := range w.Match(&in.Spec) {
		if n++; n%freshEvery == 0 {
			if len(w.Passed) > 2*heard { // to set watches costs a look at each folder
				heard = len(w.Passed)
				if d.t.watch.Also(w.Passed) {
					d.t.rescanSoon()
				}
			}
			d.meetFresh()
			d.weigh()
		}
		d.meet(in, s.Path(), "")
	}
	return n > 0
}

// meet handles a path that a scan found for an input: a file that is being read may have a new one,
// a new file is read, or it is logged why not. first is as in adopt.
func (d *discovery) meet(in *input, path, first string) {
	st, err := look.Match(d.own, path)
	if folder, shut := notices.ShutFolder(path, err); shut != nil {
		d.t.tell(folder, shut)
		return
	}
	if err != nil {
		switch {
		case !errors.Is(err, fs.ErrNotExist):
			d.t.tell(path, err)
		case inode.IsLink(path):
			d.t.tell(path, notices.Dangling(err))
		}
		return
	}
	m := &d.meeting // not new for each of thousands of files
	*m = meeting{in: in, path: path, st: st, was: path}
	for d.t.on(m); m.at != ""; d.t.on(m) {
		now, err := inode.At(m.at)
		*m = meeting{in: in, path: path, st: st, was: m.at, left: err != nil || now.Node != st.Node}
	}
	if m.isRead {
		return
	}
	if m.rival != nil {
		if m.rest && d.hasMore(m.rival, path) {
			d.adopt(m.rival, path, path)
		}
		d.t.notices.Report(notices.Subject{Path: path, Input: in.Name}, notices.Rival(m.rival.Name))
		return
	}
	// What start_at: end passes over has to be known when it is written to, however old it was.
	if old := in.IgnoreOlder.D(); old > 0 && !m.begun && !in.passesOld() && time.Since(time.Unix(0, st.Mtime)) > old {
		return
	}
	if first != "" || !d.readyCopiedUp(in, path, st.Node) { // not if overlayfs has given an open file another inode
		d.stirred = d.t.scans.no
		d.taking = d.taking.Add(finder.CostOf(func() { d.adopt(in, path, first) }))
	}
}

// meeting is that a scan has found a file, and asks what is known of it. A reader that knows it by the path was is
// told.
type meeting struct {
	in   *input
	path string
	st   inode.Status
	was  string
	left bool // was does not lead to the file any more

	isRead bool   // a reader has it, and was told
	at     string // a reader has it, and knows it by this path, which is to be looked at first; empty: none
	rival  *input // see Tailer.rival
	rest   bool   // the rival may have more of it to read
	begun  bool   // it is followed, however old it is: it may be written to and rotated
}

func (m *meeting) happen(t *Tailer) {
	r := m.in.readers.Get(m.st.Node)
	switch {
	case r == nil:
		m.rival, m.rest = t.rival(m.in, m.st)
		m.begun = m.in.byNode.get(m.st.Node) != nil
	case r.path() != m.was:
		m.at = r.path()
	default:
		m.isRead = true
		t.seen(r, m.path, m.left, m.st)
	}
}

// askAgain compares the files again that an earlier scan could not tell from copies or not open, and
// that no pattern matches, so that the scan itself does not find them.
func (d *discovery) askAgain(in *input) {
	was := in.scan.unopened
	in.scan.unopened = make(map[inode.Node]unopened)
	for _, s := range in.scan.again {
		if st, err := inode.At(s.path); s.scan != d.t.scans.no && !in.Reads(s.path) && err == nil && st.Node == s.node {
			d.adopt(in, s.path, s.path)
		}
	}
	for n, u := range was {
		if path, there := in.folders.Find([]string{u.path}, n); there && !in.Excludes(path) {
			d.adopt(in, path, u.first)
		}
	}
}

// noteSeen records in the journal that an input is known, so that the next start does not take its
// files for older than it (see start_at). The journal has those files already: a kill in between
// must not make them look new.
func (d *discovery) noteSeen(in *input) {
	if !in.scan.noted {
		in.scan.noted, in.scan.isNew = true, false
		_, _ = d.t.o.History.InputSeen(in.Name) // the journal itself logs that it cannot write
	}
}

// readBy returns the other input that reads the file n for the same route; nil: none does. If both
// read it, its records would arrive twice. The caller holds mu.
func (t *Tailer) readBy(in *input, n inode.Node) *input {
	for _, other := range t.inputs() {
		if other != in && other.Route == in.Route && other.readers.Get(n) != nil {
			return other
		}
	}
	return nil
}

// hasMore reports whether a file is not as an input has read it to its end, and has no reader for.
func (d *discovery) hasMore(in *input, path string) bool {
	f, st, err := inode.Open(path)
	if err != nil {
		return true // adopt tells why
	}
	defer f.Close()
	m := d.t.recognise(in, compare.Of(f, st, inode.Handle(f)))
	return m.is != identity.Same || m.of.Position < st.Size
}

// rival returns the other input of the same route that reads this file, or has read it under
// another name. left: no reader has it, and a part may be unread. The caller holds mu.
func (t *Tailer) rival(in *input, st inode.Status) (rival *input, left bool) {
	if other := t.readBy(in, st.Node); other != nil {
		return other, false
	}
	if in.byNode.get(st.Node) != nil || st.Birth == 0 { // without a birth it may be another file
		return nil, false
	}
	for _, other := range t.inputs() {
		k := other.byNode.get(st.Node)
		if other == in || other.Route != in.Route || k == nil {
			continue
		}
		if size := k.sizeAt(st); k.position > 0 && k.position <= size {
			return other, k.position < size || k.mayBeAnew(st, in.RotateQuiet.D())
		}
	}
	return nil, false
}

// leads returns the path of the file n with all links resolved. Where a folder leads is looked up once
// in a scan, and again if the file is not there: the link may lead elsewhere since, or have led elsewhere
// when the scan began.
func (d *discovery) leads(path string, n inode.Node) string {
	if inode.IsLink(path) {
		return finder.Leads(path)
	}
	dir, name := filepath.Split(path)
	if d.led.scan != d.t.scans.no || d.led.dir != dir {
		d.led = led{d.t.scans.no, dir, finder.Leads(dir)}
	}
	real := filepath.Join(d.led.to, name)
	if real != path {
		if st, err := inode.At(real); err != nil || st.Node != n {
			d.led = led{}
			return finder.Leads(path)
		}
	}
	return real
}

// led is where a folder led in a scan.
type led struct {
	scan    uint64
	dir, to string
}

// seen notes that a scan has found the file of a reader at path; st is its status. If its path so
// far does not lead to it any more (left), the file counts as renamed. The caller holds mu.
func (t *Tailer) seen(r *reader, path string, left bool, st inode.Status) {
	if !r.life.Awaits(t.scans.no) {
		return // another of its names came first, or it was let go meanwhile
	}
	r.lighten()
	if left {
		t.o.Logger.Info("file was renamed, reading continues under its new path", "file", path, "was", r.path())
		t.o.Metrics.Rotation(r.in.Name)
		t.byPath.Delete(r)
		r.own().at = path
		t.byPath.Add(r)
	}
	t.apply(r, tracker.Seen{Scan: t.scans.no, Renamed: left, Changed: !r.form().isOf(st)})
}
