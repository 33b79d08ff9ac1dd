package journal

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"kusto-agent/internal/diskwriter"
	"kusto-agent/internal/durable"
	"kusto-agent/internal/record"
)

// ErrClosed is returned by what is called after Close.
var ErrClosed = errors.New("journal closed")

// ErrNotBegun is returned for the end or the split of a batch that is not
// under way: nothing is known of what it covers.
var ErrNotBegun = errors.New("batch not begun")

// Options are what Open may be told; the zero value of each stands for what it
// says.
type Options struct {
	Logger    *slog.Logger     // none: nothing is logged
	Now       func() time.Time // the time written into entries; time.Now
	SyncEvery time.Duration    // 1s
	Stall     time.Duration    // how long a write may take; 5s
	FS        durable.FS       // durable.OS
	// SegmentSize is how many bytes of entries a segment takes before the next
	// is begun; 16 MiB, or a quarter of Config.MaxSize where that is less.
	SegmentSize int64
	// Agent is whom a new journal belongs to; zero: it gets a random id. One that is
	// there keeps its own.
	Agent [16]byte
	// BootID names the running of the machine, so that a power cut can be told
	// from a kill; the kernel's boot_id.
	BootID string
}

// fill sets the defaults of options that are not set.
func (o *Options) fill() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.SyncEvery = cmp.Or(o.SyncEvery, time.Second)
	o.Stall = cmp.Or(o.Stall, 5*time.Second)
	if o.FS == nil {
		o.FS = durable.OS
	}
	if o.BootID == "" {
		b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // without it a power failure cannot be told from a kill of the process
		o.BootID = strings.TrimSpace(string(b))
	}
}

// Journal is safe for concurrent use.
//
// A method that tells it something returns after the entry went through the
// page cache. Where the disk refused, it returns the disk's error, and
// record.ErrStalled where the write took longer than Options.Stall: the journal
// knows it all the same and writes it as soon as the disk lets it, so the
// caller goes on. An argument that makes no sense is an error too, and is not
// taken in.
type Journal struct {
	conf  atomic.Pointer[Config]
	o     Options
	dir   string
	lines []line // of what was never forgotten, that of this run the last

	disk   *diskwriter.Writer
	beside *diskwriter.Watch // of the calls for the next segment

	mu        sync.Mutex
	state     *state
	lost      bool // what was known before this run is gone
	queue     []*op
	unapplied []*op // entries that the state does not have yet, in the order of the history
	queued    int   // bytes in queue
	given     int   // how many at the head of queue nobody waits for
	overflow  bool  // the queue lacks entries that the state has: a snapshot is due
	listeners []func(iter.Seq2[record.File, int64])

	w writer // owned by the writer's goroutine
}

// Open reads the journal in dir, which it creates if it is missing, begins a new segment (file of
// entries) and starts the goroutine that writes. dir must belong to this process alone.
//
// It is an error if the folder cannot be read, or not be written for lack of permission, or if its
// segments belong to different agents. durable.ErrVersion means that a later version wrote it in a way
// that this one cannot read. Damage is no error: the journal falls back to what it
// can read, whose positions are never beyond the true ones, and Recovery says so. A disk
// that cannot be written is none either, see Health.
func Open(dir string, cfg Config, opts Options) (*Journal, *Recovery, error) {
	opts.fill()
	rec, err := recoverState(opts.FS, dir, opts.BootID)
	if err != nil {
		return nil, nil, fmt.Errorf("open journal %q: %w", dir, err)
	}
	if !rec.known && opts.Agent != ([16]byte{}) {
		rec.agent = opts.Agent
	}
	j := &Journal{
		o: opts, dir: dir, state: rec.state, lost: rec.lost,
		lines: append(rec.lines, newLine()),
	}
	j.watchDisk()
	j.conf.Store(&cfg)
	j.w = writer{j: j, log: opts.Logger, next: rec.next, agent: rec.agent, record: rec.record,
		closed: rec.segments, damaged: rec.damaged}
	if err := j.w.rotate(); errors.Is(err, os.ErrPermission) {
		return nil, nil, fmt.Errorf("open journal %q: %w", dir, err)
	}
	go j.disk.Run(j.w.turn, j.w.due) // started here; ends when Close asks it to; Close waits
	return j, rec.report(), nil
}

// Agent returns the id of the agent to which the journal in dir belongs. known is false if the journal
// is empty, or nothing of it is readable. It takes no lock. The errors are those of Open.
func Agent(dir string) (id [16]byte, known bool, err error) {
	segments, err := listSegments(durable.OS, dir)
	r := &recovered{}
	if err == nil {
		err = r.headers(durable.OS, dir, segments)
	}
	if err != nil {
		return id, false, fmt.Errorf("read journal %q: %w", dir, err)
	}
	if !r.known {
		return id, false, nil
	}
	return r.agent, true, nil
}

// SetConfig puts other bounds of the history in force, from the next segment on.
func (j *Journal) SetConfig(cfg Config) { j.conf.Store(&cfg) }

func (j *Journal) cfg() *Config { return j.conf.Load() }

func (j *Journal) segmentSize() int64 {
	return cmp.Or(j.o.SegmentSize, min(16<<20, max(64<<10, int64(j.cfg().MaxSize)/4)))
}

// InputKnown reports whether an input was seen before. If damage has destroyed the state
// every input counts as known, so that its files are read from their beginning.
func (j *Journal) InputKnown(name string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state.inputs[name] || j.lost
}

// InputSeen records that the agent has looked for the files of an input, so that at later starts the
// input is not new. It returns whether the input was known before, as InputKnown does.
func (j *Journal) InputSeen(name string) (known bool, err error) {
	j.mu.Lock()
	known, lost := j.state.inputs[name], j.lost
	j.mu.Unlock()
	if !known {
		err = j.tell(&Entry{Kind: Input, Input: name})
	}
	return known || lost, err
}

// Files returns all files of an input that the journal remembers, sorted by id and
// generation. The caller owns the slice.
func (j *Journal) Files(input string) []FileState {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state.filesOf(input)
}

// EachFile yields what Files returns, one file at a time: the list of hundreds of thousands of files
// would take too much memory. It yields the state of each file at that time. Files that were added
// since the call are left out.
func (j *Journal) EachFile(input string) iter.Seq[FileState] {
	j.mu.Lock()
	names := j.state.namesOf(input)
	j.mu.Unlock()
	return func(yield func(FileState) bool) {
		for _, name := range names {
			if s, known := j.State(name); known && !yield(s) {
				return
			}
		}
	}
}

// Covers reports whether all ranges in p.Cover are safe: their records were delivered, or need not be
// sent from their files again. It is false if there are no ranges.
func (j *Journal) Covers(p *record.Payload) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state.covered(&Begun{Payload: *p})
}

// State returns what the journal knows of one file, and false if it knows nothing. The caller owns
// the result.
func (j *Journal) State(f record.File) (FileState, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state.view(f)
}

// Position returns the checkpoint of a file, the offset up to which nothing has to be sent again, and
// the fingerprint of the bytes before it; 0 and 0 if the file is not known.
func (j *Journal) Position(f record.File) (int64, record.Mark) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if st := j.state.files.get(nameOf(f)); st != nil {
		return st.position, st.mark
	}
	return 0, 0
}

// Register records a file, or what changed of it. If nothing changed, nothing is written,
// and the file only counts as seen now.
func (j *Journal) Register(f record.File, info record.Facts) error {
	j.mu.Lock()
	st := j.state.files.get(nameOf(f))
	same := st != nil && st.info == info && !slices.ContainsFunc(j.unapplied, func(o *op) bool { return o.entry.File == f })
	if same {
		j.state.files.edit(nameOf(f)).seen = instantOf(j.o.Now())
	}
	j.mu.Unlock()
	if same {
		return nil
	}
	return j.tell(&Entry{Kind: FileSeen, File: f, Info: info})
}

// Found is Register for callers that must not wait until the entry is written: what is told later is
// written behind it. The error is ErrClosed.
func (j *Journal) Found(f record.File, info record.Facts) error {
	return j.later(&Entry{Kind: FileSeen, File: f, Info: info})
}

// Forget removes all that is known of a file. It does not wait until that is written, as Found. The error
// is ErrClosed.
func (j *Journal) Forget(f record.File) error {
	return j.later(&Entry{Kind: Forget, File: f})
}

// Skip records that nothing has to be sent of a range of a file, so that its checkpoint may pass the
// range. mark is the fingerprint of the bytes before span.End.
func (j *Journal) Skip(f record.File, span record.Span, mark record.Mark) error {
	if err := isRange("skip", f, span); err != nil {
		return err
	}
	return j.tell(&Entry{Kind: Skip, File: f, Span: span, Mark: mark})
}

// Begin records that a request for p is about to be made, with the number p.Attempt. The first time
// all of p but its body is written, later only the number of the attempt. If p.Replaces names a
// batch, that batch ends. Until p ends the journal keeps p.Cover
// and p.Pieces, which must not be changed. A payload that goes to the spool or to
// quarantine without a request is begun in the same way, so that its end covers its
// ranges.
func (j *Journal) Begin(p *record.Payload) error {
	if err := check(p); err != nil {
		return fmt.Errorf("begin batch %s: %w", p.ID, err)
	}
	j.mu.Lock()
	known := j.state.begun[p.ID] != nil
	j.mu.Unlock()
	if known {
		return j.tell(&Entry{Kind: Attempt, Batch: p.ID, Attempt: p.Attempt})
	}
	b := describe(p)
	return j.tell(&Entry{Kind: Begin, Payload: &b.Payload, HadLens: b.HadLens, Batch: p.ID, Attempt: p.Attempt})
}

// End records how a batch ended. From then on its ranges count as safe (not to be sent from their
// files again), unless o is Split or Replaced: then other batches have its records. The error is
// ErrNotBegun for a batch that is not under way.
func (j *Journal) End(id record.BatchID, o record.Outcome) error {
	if err := j.mustBeBegun(id); err != nil {
		return fmt.Errorf("end batch %s: %w", id, err)
	}
	return j.tell(&Entry{Kind: End, Batch: id, Outcome: o})
}

// Split records that the batches children take over the ranges of the batch parent, which ends. They
// count as begun; what Begin says of p holds for each child. The error is ErrNotBegun if parent is not
// under way.
func (j *Journal) Split(parent record.BatchID, children []*record.Payload) error {
	if err := j.mustBeBegun(parent); err != nil {
		return fmt.Errorf("split batch %s: %w", parent, err)
	}
	e := &Entry{Kind: Split, Batch: parent}
	for _, c := range children {
		if err := check(c); err != nil {
			return fmt.Errorf("split batch %s: %w", parent, err)
		}
		e.Children = append(e.Children, describe(c))
	}
	return j.tell(e)
}

// Replay records that a request for a batch that lies in the spool is about to
// be made, its attempt'th.
func (j *Journal) Replay(id record.BatchID, attempt int) error {
	return j.tell(&Entry{Kind: Replay, Batch: id, Attempt: attempt})
}

// Answered records that the request of Replay with this number of attempt was answered, and that the
// batch was not stored by it: after a sudden end it need not be told that it may have been. Answered
// does not wait for the disk.
func (j *Journal) Answered(id record.BatchID, attempt int) error {
	return j.later(&Entry{Kind: Replay, Batch: id, Attempt: attempt, Answered: true})
}

// EndReplay records how a batch that lies in the spool ended. It is remembered
// until Removed says that the spool has nothing of it any more.
func (j *Journal) EndReplay(id record.BatchID, o record.Outcome) error {
	return j.tell(&Entry{Kind: ReplayEnd, Batch: id, Outcome: o})
}

// Unknown records that the outcome of a batch's request, with this number of attempt, is not known:
// the service may have stored the batch twice. The entry is for the history only; Unknown does not
// wait for the disk.
func (j *Journal) Unknown(id record.BatchID, attempt int) error {
	return j.later(&Entry{Kind: Unknown, Batch: id, Attempt: attempt})
}

// Abandoned records that a range of a file is lost because it will never be read. The
// entry is for the history only: it moves no checkpoint, and Abandoned does not wait for the
// disk.
func (j *Journal) Abandoned(f record.File, span record.Span) error {
	if err := isRange("abandon", f, span); err != nil {
		return err
	}
	return j.later(&Entry{Kind: Abandoned, File: f, Span: span})
}

// GivenUp records that a person removed a record from quarantine; f and span say where it was read.
// The entry is for the history only: it moves no checkpoint, and GivenUp does not wait for the disk.
func (j *Journal) GivenUp(f record.File, span record.Span) error {
	if err := isRange("give up", f, span); err != nil {
		return err
	}
	return j.later(&Entry{Kind: Removed, File: f, Span: span})
}

// Evicted records that n records were dropped from quarantine to make room for others. The rest is as
// with GivenUp, but it waits until the entry is written: a whole file of quarantine may be told so.
func (j *Journal) Evicted(f record.File, span record.Span, n int) error {
	if err := isRange("drop", f, span); err != nil {
		return err
	}
	return j.tell(&Entry{Kind: Removed, File: f, Span: span, Count: uint64(n)})
}

// Removed says that the spool has no frame (stored copy) of these batches any more, so the journal
// need not remember how they ended. It writes nothing: the next snapshot leaves them out.
func (j *Journal) Removed(ids []record.BatchID) {
	for some := range slices.Chunk(ids, 256) { // so that nobody waits long for the lock
		j.mu.Lock()
		for _, id := range some {
			j.state.replays.remove(id)
			j.state.ended.remove(id)
		}
		j.mu.Unlock()
	}
}

// mustBeBegun returns ErrNotBegun if the batch was not begun, or has ended.
func (j *Journal) mustBeBegun(id record.BatchID) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.state.begun[id] == nil {
		return ErrNotBegun
	}
	return nil
}

// describe returns the payload as the journal keeps it: without its body and the lengths
// of its records.
func describe(p *record.Payload) Begun {
	b := Begun{Payload: *p, HadLens: p.Lens != nil}
	b.Body, b.Lens = nil, nil
	return b
}

// isRange returns an error if span is no range of a file. what is the first word of the error.
func isRange(what string, f record.File, span record.Span) error {
	if span.Start < 0 || span.End < span.Start {
		return fmt.Errorf("%s %s of %s: not a range", what, span, f)
	}
	return nil
}

// check returns an error if a payload has no id of its own, or if one of its ranges is invalid.
func check(p *record.Payload) error {
	if p.ID == (record.BatchID{}) || p.ID == p.Replaces {
		return errors.New("it has no id of its own")
	}
	for _, c := range p.Cover {
		if err := isRange("cover", c.File, c.Span); err != nil {
			return err
		}
	}
	for _, c := range p.Pieces {
		if err := isRange("piece", c.File, c.Span); err != nil {
			return err
		}
	}
	return nil
}

// OnSafe adds a function that is called whenever checkpoints of files advance, with those files and their new
// positions, with no lock held, on the goroutine whose call advanced them. Calls for one file may come out of order:
// the furthest position counts.
func (j *Journal) OnSafe(fn func(iter.Seq2[record.File, int64])) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.listeners = append(j.listeners, fn)
}

// Health returns nil, or why the journal cannot be written: the disk is full, read-only or
// failing, or does not answer (record.ErrStalled). Until it is nil again, batches that end may be
// sent again after a restart. After Close it is nil.
func (j *Journal) Health() error {
	err := j.badDisk()
	if err == nil && j.beside.Stalls() {
		err = record.ErrStalled
	}
	if err != nil && !j.disk.Closed() {
		return fmt.Errorf("write journal: %w", err)
	}
	return nil
}

func (j *Journal) hasOverflow() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.overflow
}

// badDisk returns why callers need not wait for the writer: its last write failed, or the
// disk hangs (record.ErrStalled). If it returns nil, they wait.
func (j *Journal) badDisk() error {
	if err := j.disk.Err(); err != nil {
		return err
	}
	if j.disk.Stalls() {
		return record.ErrStalled
	}
	return nil
}

// watchDisk sets j.disk, which watches the writes to the current segment, and j.beside, for the work on
// the next one. Both log when the disk fails, hangs or recovers.
func (j *Journal) watchDisk() {
	log := j.o.Logger
	j.disk = diskwriter.New(diskwriter.Options{
		Stall: j.o.Stall, FirstRetry: firstRetry, LastRetry: lastRetry,
		OnFail: func(err error) {
			log.Error("journal write failed: delivery continues, records acknowledged meanwhile may be sent again after a restart",
				"err", err, "fix", durable.Fix(err, "state_dir"))
		},
		OnRecover: func(elapsed time.Duration) { log.Info("journal writes succeed again", "elapsed", elapsed) },
	})
	j.beside = diskwriter.NewWatch(j.o.Stall, func() {
		log.Error("disk does not respond while a journal segment is created or removed; writing continues in the current segment", "err", record.ErrStalled,
			"fix", durable.Fix(record.ErrStalled, "state_dir"))
	}, func(elapsed time.Duration) {
		log.Info("disk responds again: journal segments can be created and removed", "elapsed", elapsed)
	})
}
