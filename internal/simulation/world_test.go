package simulation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"kusto-agent/internal/record"
)

// line is one record of a file, and what became of it.
type line struct {
	span   record.Span
	text   string // its first byte is the shape it is read in
	stores []store
	kept   bool // in quarantine

	begun    time.Time // when the journal had its last begin; zero: never
	poisoned bool      // a request failed for a record of its body
	told     bool      // the log says by its range that its source is gone
	given    bool      // it was given up otherwise
}

// store is one time that the service stored a record.
type store struct {
	id        record.BatchID
	attempt   int
	at        time.Time // of the answer; where none came, of the storing
	run       int
	delivered bool // a process that lived was told that it was accepted
	answered  bool // a process that lived was told that it was, or that nobody knows
}

// file is one that is read.
type file struct {
	name  record.File
	lines []*line
	size  int64

	gone, denied, slow bool
}

// world is everything around the processes of one history.
type world struct {
	seed  uint64
	began time.Time

	mu    sync.Mutex
	err   error
	trace []string
	count map[string]int // lines of the log by their text

	files   []*file
	byName  map[record.File]*file
	lines   map[string]*line // by text without the shape
	shape   map[string]int   // of inputs
	absent  map[string]bool  // inputs that are not configured
	removed map[string]bool  // clusters that are not configured

	away, denied, early, down, slow map[string]bool          // by cluster
	throttled                       map[string]time.Duration // by table: Retry-After
	held                            map[string]bool          // by table
	flaky                           int                      // of a hundred requests, how many end unknown
	cured                           bool                     // no body is poisonous any more
	full                            bool                     // quarantine

	disk   diskFaults
	jump   time.Duration // of the wall clock
	names  map[record.BatchID]bool
	parent map[record.BatchID]record.BatchID
	covers map[record.BatchID][]record.Extent
	gone   map[string]int // records told as lost without their ranges, by input
	// Where what vanished from the spool came from may not be known: index and segment
	// were not readable at a time, or a process ended with entries of the journal that
	// were not on the disk. Then it is counted though its file is there.
	nameless bool
	doubts   []span // what was stored then may be stored again, told in general

	badSince time.Time // the journal was refused something; zero: it is well
	lastBad  time.Time // the last time that it was
	synced   time.Time // the last sync of the journal that succeeded began
	ids      uint64
}

type span struct{ from, to time.Time }

func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed(format, args...)
}

// failed needs mu.
func (w *world) failed(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("at %v: %s", time.Since(w.began).Round(time.Millisecond), fmt.Sprintf(format, args...))
		w.trace = append(w.trace, w.err.Error())
	}
}

const mostTrace = 4000

func (w *world) note(format string, args ...any) {
	if !verbose {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.trace) < mostTrace {
		w.trace = append(w.trace, fmt.Sprintf("%10v %s", time.Since(w.began).Round(time.Millisecond), fmt.Sprintf(format, args...)))
	}
}

// draw is a source of chance that depends on the seed and on what it is for alone, and
// not on the order in which goroutines run.
func (w *world) draw(what string, n int) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(what))
	return rand.New(rand.NewPCG(w.seed, h.Sum64()+uint64(n)))
}

// inputs are those of every history.
var inputs = []string{"a", "b", "c", "d"}

// shapes is how many ways there are to read an input.
const shapes = 3

// clusterOf is the cluster that an input is sent to.
func clusterOf(input string) string {
	if input == "c" {
		return "http://two"
	}
	return "http://one"
}

// durableInput is the input with durability: spool.
const durableInput = "d"

// route is where records of an input go in a shape. Needs no lock.
func route(input string, shape int) record.Route {
	return record.Route{Cluster: clusterOf(input), Database: "Db", Table: fmt.Sprint(input, shape), Format: record.TXT}
}

func shaping(shape int) uint64 { return uint64(shape+1) << 1 }

// write appends records to a file.
func (w *world) write(f *file, rnd *rand.Rand, n int, poison float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range n {
		kind := "g"
		if rnd.Float64() < poison {
			kind = string("prtfyb"[rnd.IntN(6)])
		}
		text := fmt.Sprintf("%s-%d-%d-%s%s", f.name.Input, f.name.ID, len(f.lines), kind, strings.Repeat(".", rnd.IntN(60)))
		l := &line{text: text, span: record.Span{Start: f.size, End: f.size + int64(len(text)) + 2}}
		f.lines = append(f.lines, l)
		f.size = l.span.End
		w.lines[text] = l
	}
}

// body is what a range holds in a shape. Needs mu.
func (f *file) body(b []byte, s record.Span, shape int) []byte {
	for _, l := range f.lines {
		if l.span.Start >= s.Start && l.span.End <= s.End {
			b = append(b, byte('0'+shape))
			b = append(append(b, l.text...), '\n')
		}
	}
	return b
}

// within calls fn with every record of a cover. Needs mu.
func (w *world) within(cover []record.Extent, fn func(*line)) {
	for _, x := range cover {
		f := w.byName[x.File]
		if f == nil {
			continue
		}
		for _, l := range f.lines {
			if l.span.Start >= x.Start && l.span.End <= x.End {
				fn(l)
			}
		}
	}
}

// kinds are the records of a body that have something the matter, as one text.
func kinds(body []byte) (all string) {
	for l := range bytes.Lines(body) {
		parts := bytes.SplitN(l, []byte("-"), 4)
		if len(parts) == 4 {
			all += string(parts[3][:1])
		}
	}
	return strings.Trim(all, "g")
}

// doubles are the words of lines of the log that name a batch which may be stored twice.
var doubles = []string{"stored twice", "under a new id", "with other settings"}

// log takes in what a process says. It is dead once the process is.
type log struct {
	p     *process
	attrs []slog.Attr
}

func (l log) Enabled(_ context.Context, level slog.Level) bool {
	return verbose || level >= slog.LevelWarn
}
func (l log) WithGroup(string) slog.Handler { return l }
func (l log) WithAttrs(a []slog.Attr) slog.Handler {
	return log{l.p, append(l.attrs[:len(l.attrs):len(l.attrs)], a...)}
}

func (l log) Handle(_ context.Context, r slog.Record) error {
	if l.p.dead.Load() {
		return nil
	}
	all := l.attrs
	r.Attrs(func(a slog.Attr) bool { all = append(all[:len(all):len(all)], a); return true })
	if verbose {
		text := ""
		for _, a := range all {
			if a.Key != "fix" {
				text += fmt.Sprintf(" %s=%v", a.Key, a.Value)
			}
		}
		l.p.w.note("log %v %s%s", r.Level, r.Message, text)
	}
	l.p.w.heard(r.Message, all)
	return nil
}

// heard takes in a line of the log.
func (w *world) heard(text string, attrs []slog.Attr) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count[text]++
	get := func(key string) string {
		for _, a := range attrs {
			if a.Key == key {
				return a.Value.String()
			}
		}
		return ""
	}
	for _, words := range doubles {
		if strings.Contains(text, words) {
			w.names[batchID(get("batch"))] = true
			for _, id := range strings.Fields(get("replaced_by")) {
				w.names[batchID(id)] = true
			}
		}
	}
	switch {
	case strings.HasPrefix(text, "spooled batch is lost and its record count"):
		w.within(w.covers[batchID(get("batch"))], func(l *line) { l.given = true })
	case strings.HasPrefix(text, "records vanished"):
		var n int
		fmt.Sscan(get("records"), &n)
		w.gone[get("input")] += n
	case strings.Contains(text, "source is gone"):
		for _, l := range w.ranges(get("ranges")) {
			l.told = true
		}
		if get("ranges") == "" { // nobody knows them
			var n int
			fmt.Sscan(get("records"), &n)
			for _, in := range inputs {
				w.gone[in] += n
			}
		}
	}
}

// lost notes what the spool tells of a segment that is gone: where index and segment are
// not readable at the same time it knows the ids of those alone that were in hand before.
func (w *world) lost(ids []record.BatchID, records int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		w.within(w.covers[id], func(*line) { records-- })
	}
	w.nameless = w.nameless || records > 0
}

// ranges are the records that a line of the log names. Needs mu.
func (w *world) ranges(text string) (all []*line) {
	for _, r := range strings.Fields(text) {
		at, s, found := strings.Cut(r, "[")
		var x record.Extent
		if _, err := fmt.Sscanf(s, "%d,%d)", &x.Start, &x.End); !found || err != nil {
			continue
		}
		for _, f := range w.files {
			if f.name.String() == at {
				x.File = f.name
			}
		}
		w.within([]record.Extent{x}, func(l *line) { all = append(all, l) })
	}
	return all
}

func batchID(text string) (id record.BatchID) {
	var n int
	for i := 0; i+1 < len(text) && n < 16; {
		if text[i] == '-' {
			i++
			continue
		}
		fmt.Sscanf(text[i:i+2], "%02x", &id[n])
		n, i = n+1, i+2
	}
	return id
}

var errFull = errors.New("quarantine is full")
