package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"kusto-agent/batcher"
	"kusto-agent/internal/async"
	"kusto-agent/internal/config"
	"kusto-agent/internal/journal"
	"kusto-agent/internal/ledger"
	"kusto-agent/internal/record"
	"kusto-agent/internal/telemetry"
	"kusto-agent/internal/units"
	"kusto-agent/tail"
)

// Peek reads the files of one input as the agent does and keeps the first payload. Nothing
// is sent or written.
type Peek struct {
	past  *journal.Past // nil: nothing was read before
	avoid []string
	more  chan struct{} // there is something in got

	mu       sync.Mutex
	got      []*record.Payload
	rejected []record.Rejected // the first of them
	tailer   *tail.Tailer
	input    *config.Input
	books    *ledger.Ledger
}

// NewPeek makes one that reads what a configuration would send next: behind past; with nil,
// from the beginning.
func NewPeek(cfg *config.Config, past *journal.Past) *Peek {
	return &Peek{past: past, avoid: cfg.Folders(), more: make(chan struct{}, 1), books: ledger.New()}
}

// Past is what the journal of a configuration knows. An agent may be using it.
func Past(cfg *config.Config) (*journal.Past, error) {
	return journal.Look(filepath.Join(cfg.StateDir, "journal"))
}

// First returns the first payload that an input would send; nil: there is none, and Why says why.
// It reads the files until a payload is complete, or to their ends. It may be called only once.
func (c *Peek) First(ctx context.Context, in *config.Input) (*record.Payload, error) {
	b := batcher.New(batcher.Options{Routes: map[record.Route]batcher.Limits{in.Route(): in.Limits()}, Memory: 64 << 20, Next: collector{c}})
	t, err := onlooker([]tail.Input{in.Tail()}, c.past, c.avoid, b, refusals{c}, c.books)
	if err != nil {
		return nil, err
	}
	c.tailer, c.input = t, in
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	batching := async.Start(b.Run)
	reading := async.Start(func() { t.Run(ctx, ctx) })
	defer func() {
		cancel()
		<-reading
		b.Close()
		<-batching
	}()
	select {
	case <-c.more:
		return c.earliest(), nil
	case <-reading:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	b.Close() // makes payloads of the records that are left, in any order
	<-batching
	return c.earliest(), nil
}

// Rejected are the first 20 records that would go to quarantine, without their bytes.
func (c *Peek) Rejected() []record.Rejected {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rejected
}

// earliest returns that one of the payloads so far whose records come first: by the path of the
// file, its generation, the offset in it; nil: there is none.
func (c *Peek) earliest() *record.Payload {
	paths := c.paths()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.got) == 0 {
		return nil
	}
	return slices.MinFunc(c.got, func(a, b *record.Payload) int {
		x, y := a.Cover[0], b.Cover[0]
		return cmp.Or(strings.Compare(paths[x.File], paths[y.File]), cmp.Compare(x.File.Generation, y.File.Generation), cmp.Compare(x.Start, y.Start))
	})
}

// paths returns the paths of the files that are being read.
func (c *Peek) paths() map[record.File]string {
	paths := map[record.File]string{}
	for _, f := range c.tailer.Files() {
		paths[f.File] = f.Path
	}
	return paths
}

// Why says, for people, why First found nothing.
func (c *Peek) Why() string {
	if n := len(c.Rejected()); n > 0 {
		return fmt.Sprintf("%s would go to quarantine, and no other was read", units.Counted(n, "record"))
	}
	var all []string
	for path, why := range c.tailer.Problems() {
		all = append(all, path+": "+why)
	}
	if len(all) > 0 {
		return strings.Join(slices.Sorted(slices.Values(all)), "; ")
	}
	if ledger.Total(c.LeftOut()) > 0 {
		return "all of it is left out: " + c.LeftOutText()
	}
	return "its files hold nothing that is not accepted, in the spool, in quarantine or in a request already"
}

// LeftOut returns how many records were filtered, by reason. Each rule of the input is in the
// result, also with 0.
func (c *Peek) LeftOut() map[string]uint64 {
	all := map[string]uint64{}
	if set, err := c.input.NewRules(); err == nil && set != nil {
		for _, reason := range set.Reasons() {
			all[reason] = 0
		}
	}
	maps.Copy(all, c.books.Snapshot()[c.input.Name].Filtered)
	return all
}

// LeftOutText returns LeftOut as a text such as "3 debug, 0 sample"; empty: the input has no
// rule, and no record was filtered.
func (c *Peek) LeftOutText() string {
	var all []string
	filtered := c.LeftOut()
	for _, reason := range slices.Sorted(maps.Keys(filtered)) {
		all = append(all, fmt.Sprintf("%d %s", filtered[reason], reason))
	}
	return strings.Join(all, ", ")
}

// Places returns the ranges of a payload as a text: for each the path of the file, or its
// identity if the path is not known, and the offsets where the range begins and ends.
func (c *Peek) Places(p *record.Payload) string {
	paths := c.paths()
	var all []string
	for _, x := range p.Cover {
		all = append(all, telemetry.Printable(cmp.Or(paths[x.File], x.File.String()))+" "+strconv.FormatInt(x.Start, 10)+" to "+strconv.FormatInt(x.End, 10))
	}
	return strings.Join(all, ", ")
}

// collector stands in the place of the sender, for one payload of each kind.
type collector struct{ *Peek }

func (c collector) Credit(record.Route) (int, bool) { return 1, true }
func (c collector) Largest(record.Route) int        { return 0 }

// Put keeps a payload in place of sending it, and tells First that there is one.
func (c collector) Put(p *record.Payload) {
	c.mu.Lock()
	c.got = append(c.got, p)
	c.mu.Unlock()
	select {
	case c.more <- struct{}{}:
	default:
	}
}

// readOnly stands in the place of the journal.
type readOnly struct{ past *journal.Past }

// Files returns what the journal knows of the files of an input; none if nothing was read before.
func (r readOnly) Files(input string) iter.Seq[tail.State] {
	if r.past == nil {
		return func(func(tail.State) bool) {}
	}
	return States(slices.Values(r.past.Files(input)))
}

func (r readOnly) InputKnown(name string) bool                      { return r.past != nil && r.past.InputSeen(name) }
func (r readOnly) InputSeen(name string) (bool, error)              { return r.InputKnown(name), nil }
func (r readOnly) Register(record.File, record.Facts) error         { return nil }
func (r readOnly) Found(record.File, record.Facts) error            { return nil }
func (r readOnly) Skip(record.File, record.Span, record.Mark) error { return nil }
func (r readOnly) Abandoned(record.File, record.Span) error         { return nil }
func (r readOnly) Forget(record.File) error                         { return nil }

// putAway is how many records for quarantine are named.
const putAway = 20

// refusals keeps the first records that would go to quarantine, without their bytes.
type refusals struct{ *Peek }

// Put keeps the first putAway records that would go to quarantine, without their bytes, and
// ignores the others.
func (c refusals) Put(recs []record.Rejected) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range recs[:min(len(recs), putAway-len(c.rejected))] {
		r.Data = nil
		c.rejected = append(c.rejected, r)
	}
	return nil
}

// quiet is told what happens to files and keeps it to itself.
type quiet struct{}

func (quiet) Rotation(string)          {}
func (quiet) Truncation(string, int64) {}
func (quiet) Abandoned(string, int64)  {}
func (quiet) Vanished(string)          {}
func (quiet) InvalidUTF8(string, int)  {}
func (quiet) Unparsed(string, int)     {}
func (quiet) NULs(string, int64)       {}

// Raw is the body of a payload before gzip. It is in memory of its own.
func Raw(p *record.Payload) ([]byte, error) { return batcher.Raw(p) }
