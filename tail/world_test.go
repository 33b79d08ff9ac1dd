package tail

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/internal/journal"
	"kusto-agent/internal/record"
	"kusto-agent/internal/units"
	"kusto-agent/tail/internal/tracker"
)

// raceDetector says that the tests run with the race detector, which makes them slow.
var raceDetector bool

// TestMain has more tests run at once than there are processors: most of them wait for files.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set(strconv.Itoa(4 * runtime.GOMAXPROCS(0)))
	}
	goleak.VerifyTestMain(m)
}

// patience bounds how long a test waits for what must happen. It decides
// nothing but when a failure is told.
const patience = time.Minute

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is a folder of files, a journal, a tailer and somebody who takes the
// records. It belongs to the goroutine of its test.
type world struct {
	t          testing.TB
	dir        string      // of the files
	state      string      // of the journal
	disk       *faultfs.FS // in memory, where the journal is; nil: it is on the real one
	boot       int         // how often the machine was started
	inputs     []Input
	open       int                    // descriptors the tailer may hold
	once       bool                   // the tailer runs once
	unlooked   bool                   // compressed files wait to be looked through until the next start
	block      int                    // bytes of a payload
	journalFor func(positions) memory // stands before the journal; nil: nothing does
	own        *os.File               // where the agent's log goes; nil: nowhere
	batch      bool                   // a real batcher stands between tailer and taker
	wait       time.Duration          // of its records for company; 0: hardly any
	lie        atomic.Int64           // files say they have at most so many bytes; 0: they do not lie
	hidden     atomic.Int64           // files of this size say that they are empty
	boxed      *box                   // remembers what happens across restarts
	keeper     Quarantine             // nil: boxed is

	j       *journal.Journal
	tailer  *Tailer
	taker   *taker
	stop    context.CancelFunc
	giveUp  context.CancelFunc // on deleted files that are read at the stop
	stopped chan struct{}      // closed when Run has returned
}

func newWorld(t testing.TB) *world { return newWorldIn(t, t.TempDir()) }

// newWorldIn is a world whose files are in a folder that is there.
func newWorldIn(t testing.TB, dir string) *world {
	w := &world{t: t, dir: dir, state: filepath.Join(t.TempDir(), "journal"), open: 1000, block: 64 << 10, boxed: newBox()}
	w.addInput("in", "*.log")
	t.Cleanup(w.end)
	return w
}

// addInput adds an input of lines of text. Times are short, so that what waits
// for them need not wait long.
func (w *world) addInput(name string, paths ...string) *Input {
	c := DefaultInputConfig()
	c.Name, c.Format, c.Compression = name, record.TXT, "none"
	c.RotateQuiet = units.Duration(50 * time.Millisecond)
	for _, p := range paths {
		c.Paths = append(c.Paths, filepath.Join(w.dir, p))
	}
	w.inputs = append(w.inputs, Input{InputConfig: c})
	return &w.inputs[len(w.inputs)-1]
}

// memory is what a tailer remembers.
type memory interface {
	Positions
	History
}

func (w *world) positions() memory {
	if w.journalFor != nil {
		return w.journalFor(positions{w.j})
	}
	return positions{w.j}
}

func (w *world) ownFiles() []*os.File {
	if w.own == nil {
		return nil
	}
	return []*os.File{w.own}
}

func (w *world) in() *Input { return &w.inputs[len(w.inputs)-1] }

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

// start opens the journal and runs a tailer on it. What an earlier run had
// begun is sent again first, as the agent does.
func (w *world) start() {
	w.t.Helper()
	w.prepare()
	ctx, cancel := context.WithCancel(context.Background())
	rest, giveUp := context.WithCancel(context.Background())
	done := make(chan struct{})
	w.stop, w.giveUp, w.stopped = cancel, giveUp, done
	tailer := w.tailer
	// Ended by w.stop, awaited by halt.
	go func() {
		defer close(done)
		tailer.Run(ctx, rest)
	}()
}

// prepare opens the journal and makes a tailer that does not run yet.
func (w *world) prepare() {
	w.t.Helper()
	var rec *journal.Recovery
	var err error
	w.j, rec, err = w.openJournal()
	must(w.t, err)
	w.setRoutes()
	w.taker = newTaker(w)
	for _, s := range w.j.Files("in") {
		w.boxed.logf("known %v position %d ahead %v %s inode %d", s.File, s.Position, s.Ahead, s.Info.Info().Path, s.Info.Info().Inode)
	}
	w.tailer, err = New(Options{
		Inputs: slices.Clone(w.inputs), Positions: w.positions(), History: w.positions(), Sink: w.taker.sink(), Quarantine: cmp.Or[Quarantine](w.keeper, w.boxed), Books: w.boxed, Metrics: w.boxed, Contents: w.boxed,
		Logger: slog.New(w.boxed), OpenFiles: w.open, Once: w.once, Avoid: []string{filepath.Dir(w.state)}, Own: w.ownFiles(),
	})
	must(w.t, err)
	w.tailer.size = func(size int64) int64 {
		if size == w.hidden.Load() {
			return 0
		}
		if most := w.lie.Load(); most > 0 {
			return min(size, most)
		}
		return size
	}
	if w.unlooked {
		w.tailer.lookThroughNothing()
	}
	w.taker.tailer.Store(w.tailer)
	w.j.OnSafe(w.tailer.Safe)
	for _, b := range rec.Begun {
		w.resend(&b.Payload)
	}
}

// lookThroughNothing has compressed files wait to be looked through for as long as the tailer runs: the
// loop that does it hears of none on a channel that is nil.
func (t *Tailer) lookThroughNothing() { t.surveys.wanted = nil }

// openJournal opens the journal as the agent does.
func (w *world) openJournal() (*journal.Journal, *journal.Recovery, error) {
	o := journal.Options{SyncEvery: time.Hour, Stall: time.Minute}
	if w.disk != nil {
		o.FS, o.SegmentSize, o.BootID = w.disk, 64<<10, fmt.Sprint("boot ", w.boot)
	}
	return journal.Open(w.state, journal.DefaultConfig(), o)
}

// remembered is what the journal knows, once it has all that it was told.
func (w *world) remembered() []journal.FileState {
	w.t.Helper()
	must(w.t, w.j.Sync())
	return w.j.Files("in")
}

// inMemory puts the journal on a disk in memory, which is faster than a real one and
// can lose what was not synced.
func (w *world) inMemory() { w.state, w.disk = "/state/journal", faultfs.New("/state") }

// setRoutes gives every input its route.
func (w *world) setRoutes() {
	for i := range w.inputs {
		in := &w.inputs[i]
		in.Route = record.Route{Cluster: "http://c", Database: "d", Table: cmp.Or(in.Table, in.Name), Format: in.Format}
		in.MaxSize = w.block
	}
}

// reload puts the inputs in force as they are now.
func (w *world) reload() {
	w.t.Helper()
	w.tailer.Apply(w.prepareReload())
}

// prepareReload is the change to the inputs as they are now.
func (w *world) prepareReload() *Change {
	w.t.Helper()
	w.setRoutes()
	w.taker.setRoutes()
	c, err := w.tailer.Prepare(slices.Clone(w.inputs), w.open)
	must(w.t, err)
	return c
}

func (w *world) resend(p *record.Payload) {
	w.t.Helper()
	body, err := w.tailer.ReadSpans(p)
	if err != nil {
		w.boxed.logf("begun batch: %v", err)
		must(w.t, w.j.End(p.ID, record.SourceGone))
		return
	}
	if crc := checksum(body); crc != p.CRC {
		w.t.Errorf("batch of %v was rebuilt with another body: %q", p.Cover, body)
	}
	p.Body, p.Attempt = body, p.Attempt+1
	must(w.t, w.j.Begin(p))
	w.boxed.receive(p)
	must(w.t, w.j.End(p.ID, record.Accepted))
}

// halt ends the tailer and the taker; the journal stays as it is.
func (w *world) halt() {
	if w.tailer == nil {
		return
	}
	w.stop()
	w.giveUp()
	<-w.stopped
	w.taker.end()
	w.sameIdle()
	w.tailer = nil
	if alone != (joint{}) || !reflect.DeepEqual(uneventful, past{}) || unbusy != (busy{joint: &alone}) {
		w.t.Errorf("what files share was written: %+v, %+v, %+v", alone, uneventful, unbusy)
	}
}

// sameIdle compares which files are idle with what their status says.
func (w *world) sameIdle() {
	w.tailer.mu.Lock()
	defer w.tailer.mu.Unlock()
	for in := range w.tailer.everyInput {
		for r := range in.readers.All() {
			if s := w.tailer.statusOf(r); w.tailer.isIdle(r) != (s.State() == "idle" && s.Fix == "") {
				w.t.Errorf("idle %v, and the status is %s: %+v", w.tailer.isIdle(r), s.State(), s)
			}
		}
	}
}

// shut is a stop in good order: with room, deleted files are read to their end.
func (w *world) shut() {
	w.taker.mu.Lock()
	full := w.taker.full
	w.taker.mu.Unlock()
	if !full {
		w.stop()
		<-w.stopped
	}
	w.halt()
	must(w.t, w.j.Close())
	w.j = nil
}

// kill ends everything as if the process had been killed at this moment: the
// next start finds the journal as it lies there now.
func (w *world) kill() {
	if w.disk != nil {
		w.crash(faultfs.Kill, 0)
		return
	}
	left := filepath.Join(w.t.TempDir(), "journal")
	w.taker.freeze(func() { must(w.t, os.CopyFS(left, os.DirFS(w.state))) })
	w.halt()
	must(w.t, w.j.Close())
	w.j, w.state = nil, left
}

// crash is kill, or a power cut, with the journal on a disk in memory.
func (w *world) crash(m faultfs.Mode, seed uint64) {
	var left *faultfs.FS
	w.taker.freeze(func() { left = w.disk.Crash(m, seed) })
	w.halt()
	must(w.t, w.j.Close())
	w.j, w.disk = nil, left
	if m != faultfs.Kill {
		w.boot++
	}
}

func (w *world) end() {
	w.halt()
	if w.j != nil {
		w.j.Close()
	}
}

// await waits until is true, which it asks with the tailer's lock held after
// each turn and scan and after each record received.
func (w *world) await(what string, is func() bool) bool {
	w.t.Helper()
	t := w.tailer
	late := false
	bell := time.AfterFunc(patience, func() {
		t.mu.Lock()
		late = true
		t.mu.Unlock()
		t.turns.ended.Broadcast()
	})
	defer bell.Stop()
	t.mu.Lock()
	defer t.mu.Unlock()
	for !is() {
		if late {
			w.t.Errorf("waited in vain for %s; files:\n%s", what, strings.Join(t.states(), "\n"))
			return false
		}
		t.turns.ended.Wait()
	}
	return true
}

// look has the tailer look at all names and then at all files, and waits until
// it has done so. What is handed over has arrived when it returns, and the journal has the files.
func (w *world) look() {
	w.t.Helper()
	t := w.tailer
	for range 2 { // it takes two scans to miss a file
		t.mu.Lock()
		next := t.scans.no + 1
		t.mu.Unlock()
		t.rescanSoon()
		w.await("a scan", func() bool { return t.scans.done.Load() >= next })
	}
	t.mu.Lock()
	for _, r := range t.all() {
		t.readyLocked(r)
	}
	t.mu.Unlock()
	w.taker.mu.Lock()
	full := w.taker.full
	w.taker.mu.Unlock()
	w.await("rest", func() bool {
		return !slices.ContainsFunc(t.all(), func(r *reader) bool { return r.life.Turn() != tracker.Resting || r.owed.Load() && !full })
	})
	w.taker.flush()
	_ = w.j.Sync() // what was found is in the journal; the error is for those who broke the disk
}

// states describes each file that has a reader, and each suspected one.
func (t *Tailer) states() (all []string) {
	for _, r := range t.all() {
		all = append(all, fmt.Sprintf("%s life=%+v shown=%+v owed=%v", r.path(), r.life, r.shown, r.owed.Load()))
	}
	for _, in := range t.inputs() {
		for n, s := range in.suspect {
			all = append(all, fmt.Sprintf("suspect %v: %+v", n, s))
		}
	}
	return all
}

func (t *Tailer) all() (all []*reader) {
	for in := range t.everyInput {
		for r := range in.readers.All() {
			all = append(all, r)
		}
	}
	return all
}

// decided waits until no compressed file is left to be looked through, but those
// that break off.
func (w *world) decided() {
	w.t.Helper()
	w.look() // the turn of a reader whose compressed file has changed asks for a scan
	w.look()
	w.await("compressed files to be looked through", func() bool { return !w.tailer.undecided() })
	w.look()
}

func (t *Tailer) undecided() bool {
	if t.surveys.pending > 0 {
		return true
	}
	for _, in := range t.inputs() {
		for _, p := range in.packed {
			if p.err == nil && p.isPending() {
				return true
			}
		}
	}
	return false
}

// suspects reports whether a file may be a copy and is not being read yet.
func (t *Tailer) suspects() bool {
	return slices.ContainsFunc(t.inputs(), func(in *input) bool { return len(in.suspect) > 0 })
}

// expect waits for exactly these records of an input, in any order, since it
// was last asked.
func (w *world) expect(input string, want ...string) {
	w.t.Helper()
	if w.in().Watch == "poll" {
		w.tailer.rescanSoon()
	}
	w.await(fmt.Sprintf("%d records of %s", len(want), input), func() bool { return w.boxed.count(input) >= len(want) })
	w.look()
	w.await("no doubts", func() bool { return !w.tailer.suspects() })
	w.decided()
	w.look()
	got := w.boxed.take(input)
	slices.Sort(got)
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		w.t.Errorf("input %s: records are %s; want %s", input, brief(got), brief(want))
	}
}

// brief quotes records, leaving out the middle of many.
func brief(all []string) string {
	if len(all) > 30 {
		return fmt.Sprintf("%q … %q (%d)", all[:12], all[len(all)-12:], len(all))
	}
	return fmt.Sprintf("%q", all)
}

// box is where everything ends that a world's tailers tell. It is safe for
// concurrent use.
type box struct {
	mu       sync.Mutex
	records  map[string][]string // by input, since they were last taken
	refused  []record.Rejected
	room     int // how many records quarantine takes
	log      []string
	counters map[string]int64
	bodies   int
}

func newBox() *box {
	return &box{records: make(map[string][]string), counters: make(map[string]int64), room: math.MaxInt}
}

// receive takes the records of a payload as they are.
func (b *box) receive(p *record.Payload) {
	b.mu.Lock()
	b.bodies++
	in := p.Pieces[0].File.Input
	for line := range strings.Lines(string(p.Body)) {
		b.records[in] = append(b.records[in], strings.TrimSuffix(line, "\n"))
	}
	b.mu.Unlock()
}

func (b *box) count(input string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.records[input])
}

func (b *box) has(input, line string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Contains(b.records[input], line)
}

func (b *box) take(input string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.records[input]
	delete(b.records, input)
	return all
}

func (b *box) add(counter string, n int64) {
	b.mu.Lock()
	b.counters[counter] += n
	b.mu.Unlock()
}

func (b *box) counter(name string) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.counters[name]
}

func (b *box) Put(recs []record.Rejected) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.refused)+len(recs) > b.room {
		return errors.New("no room")
	}
	for _, r := range recs {
		r.Data = slices.Clone(r.Data)
		b.refused = append(b.refused, r)
	}
	return nil
}

func (b *box) Read(input string, records int, bytes int64) {
	b.add("read", int64(records))
	b.add("bytes", bytes)
}
func (b *box) Filtered(_, reason string, n int) { b.add(reason, int64(n)) }
func (b *box) Changed(_, rule string, n int)    { b.add(rule, int64(n)) }
func (b *box) Rejected(lot record.Lot, reason record.Reason) {
	b.add(string(reason), int64(lot.Records))
}
func (b *box) Rotation(string)                          { b.add("rotations", 1) }
func (b *box) Truncation(_ string, unread int64)        { b.add("truncations", 1); b.add("unread", unread) }
func (b *box) Abandoned(_ string, bytes int64)          { b.add("abandoned", bytes) }
func (b *box) Vanished(string)                          { b.add("vanished", 1) }
func (b *box) Unparsed(_ string, n int)                 { b.add("unparsed", int64(n)) }
func (b *box) InvalidUTF8(_ string, n int)              { b.add("utf8", int64(n)) }
func (b *box) NULs(_ string, n int64)                   { b.add("nuls", n) }
func (b *box) logf(format string, args ...any)          { b.note(fmt.Sprintf(format, args...)) }
func (b *box) Enabled(context.Context, slog.Level) bool { return true }
func (b *box) WithAttrs([]slog.Attr) slog.Handler       { return b }
func (b *box) WithGroup(string) slog.Handler            { return b }
func (b *box) note(line string)                         { b.mu.Lock(); b.log = append(b.log, line); b.mu.Unlock() }

// text is the log.
func (b *box) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.log, "\n")
}

// Handle keeps a log line as text.
func (b *box) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	b.note(line)
	return nil
}

// logged counts the log lines that hold all words.
func (b *box) logged(words ...string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.log {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(l, w) }) {
			n++
		}
	}
	return n
}

// positions hands a journal to the tailer, as the agent does.
type positions struct{ *journal.Journal }

func (p positions) Files(input string) iter.Seq[State] {
	return func(yield func(State) bool) {
		for s := range p.EachFile(input) {
			if !yield(State{File: s.File, Info: s.Info, Position: s.Position, Mark: s.Mark, Ahead: s.Ahead}) {
				return
			}
		}
	}
}
