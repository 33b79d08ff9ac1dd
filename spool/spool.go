package spool

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"kusto-agent/internal/diskwriter"
	"kusto-agent/internal/durable"
	"kusto-agent/internal/record"
)

// Errors that callers tell apart. Others are those of the disk.
var (
	// ErrFull is returned by Put where max_size or min_free leaves no room.
	ErrFull = record.ErrFull
	// ErrOff is returned by Put where max_size is 0.
	ErrOff = record.ErrOff
	// ErrClosed is returned by Put after Close.
	ErrClosed = errors.New("spool is closed")
	// ErrForeign is returned by Open for a folder with segments of something
	// else, or of another spool.
	ErrForeign = errors.New("not the folder of this spool")
	// ErrInUse is returned by Open for a folder that another process has open, and
	// by Put where another one made and took it meanwhile.
	ErrInUse = errors.New("spool is in use by another agent")
	// ErrGone is returned by Options.Rebuild where the source of a payload is gone.
	ErrGone = errors.New("source is gone")
)

// Options configure Open. A field that is zero has the default that its comment ends
// with. The functions are called with no lock held, from the spool's own
// goroutine or from Next; they may call every method but Close and Put.
type Options struct {
	Logger *slog.Logger     // none: nothing is logged
	Now    func() time.Time // the wall clock: when a payload came here; time.Now
	// Elapsed is the time that went by, which no clock that is set changes: payloads
	// age by it. The monotonic clock.
	Elapsed func() time.Duration
	Stall   time.Duration // how long a Put or a Next may wait for the disk; 5s
	FS      durable.FS    // durable.OS
	// Free tells how many bytes of the disk that holds a folder are free for
	// this process. Where it fails min_free is not looked at; statfs(2).
	Free func(dir string) (int64, error)
	// Agent is the id of the agent that the folder has to belong to. A folder without an
	// owner belongs to it from now on. Zero: any owner will do.
	Agent [16]byte
	// SegmentSize is how many bytes a segment takes before the next is begun;
	// 64 MiB, or an eighth of Config.MaxSize where that is less.
	SegmentSize int64

	// OnDrop is told of each payload that is given up, without Body, and why:
	// record.DropSpoolFull, record.DropSpoolAge, or record.DropRemoved for Remove.
	OnDrop func(p *record.Payload, reason string)
	// Rebuild makes the Body of a payload again, which the spool cannot read any more,
	// from its sources. If the Body differs from what it was, Rebuild sets another ID too.
	// If not even the ranges of the payload are known, its Cover is empty, and its Pieces
	// say only how many records of which input it has. ErrGone ends the payload, another
	// error puts it off. Without Rebuild no payload is made again.
	Rebuild func(p *record.Payload) error
	// OnLost is told of payloads that are not in their segment any more: their ids,
	// and, as one payload without ranges, how many records of which input they had.
	// Ids are missing where index and segment cannot be read at the same time.
	OnLost func(ids []record.BatchID, what *record.Payload)
	// OnUnwanted is told of payloads whose Put or Hold returns an error, before it
	// does, though their frames reached the disk or may reach it yet: a later start
	// may find them. They are not to be sent from there.
	OnUnwanted func(ids []record.BatchID)
	// OnSegments is called when Segments would return other numbers than before: before a
	// Put into a new segment returns, and before one is removed. It is not called before
	// Segments is.
	OnSegments func()
	// OnMove is told of each payload that Reroute is about to write for another cluster, with
	// its new Route, before anybody is given it there; and once more with the old one, if the
	// write fails. What it has of the payload may be kept.
	OnMove func(p *record.Payload)
	// OnRemove is told which payloads the spool knows nothing of any more.
	OnRemove func(ids []record.BatchID)
	// Vouch makes durable elsewhere which payloads were told there before their Put, and
	// returns a token of that, which is kept with them. Vouches says of such a token,
	// at a later start, whether all of that is known there still: then Held need not
	// read the payloads. Without Vouch it reads all.
	Vouch   func() (token [24]byte, err error)
	Vouches func(token [24]byte) bool
	// BeforeUnlink makes durable elsewhere how payloads ended, and what became of those
	// that were lost; it comes before their segment is removed. An error puts that
	// off, unless it is that the disk is full and nothing of the segment was lost.
	BeforeUnlink func() error
}

// fill sets the defaults of options that are not set.
func (o *Options) fill() {
	start := time.Now()
	diskwriter.Default(&o.Logger, slog.New(slog.DiscardHandler))
	diskwriter.Default(&o.Now, time.Now)
	diskwriter.Default(&o.Elapsed, func() time.Duration { return time.Since(start) })
	diskwriter.Default(&o.Stall, 5*time.Second)
	diskwriter.Default(&o.FS, durable.OS)
	diskwriter.Default(&o.Free, statfs)
	diskwriter.Default(&o.OnDrop, func(*record.Payload, string) {})
	diskwriter.Default(&o.Rebuild, func(*record.Payload) error { return ErrGone })
	diskwriter.Default(&o.OnLost, func([]record.BatchID, *record.Payload) {})
	diskwriter.Default(&o.OnUnwanted, func([]record.BatchID) {})
	diskwriter.Default(&o.OnSegments, func() {})
	diskwriter.Default(&o.OnMove, func(*record.Payload) {})
	diskwriter.Default(&o.OnRemove, func([]record.BatchID) {})
	diskwriter.Default(&o.BeforeUnlink, func() error { return nil })
}

// statfs returns how many bytes are free on the disk of a folder, or, if the folder does not exist, on
// that of the nearest folder above it.
func statfs(dir string) (int64, error) {
	var st unix.Statfs_t
	err := unix.Statfs(dir, &st)
	for ; errors.Is(err, unix.ENOENT) && dir != filepath.Dir(dir); err = unix.Statfs(dir, &st) {
		dir = filepath.Dir(dir)
	}
	if err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// Spool is safe for concurrent use.
//
// What it keeps in memory is 40 bytes for each payload of the segment being
// written, a few bytes for each route in each other segment, the next few hundred
// payloads of each route, what is given out or was returned, and nothing of any
// body.
type Spool struct {
	dir  string
	conf atomic.Pointer[Config]
	o    Options
	age  *clock
	rec  *Recovery

	disk *diskwriter.Writer

	mu       sync.Mutex
	segments []*segment // in the order of their places
	next     uint64     // number of the next one
	walks    int        // of each that are under way
	lanes    map[route]*lane
	out      map[record.BatchID]*taken // given out, or returned since
	attempts map[record.BatchID]int    // where more were made than the frame says
	copies   map[record.BatchID]int    // how many frames of it there are beside one
	gaveUp   map[record.BatchID]bool   // a frame of it is there that nobody waited for
	spoiled  int64                     // bytes in the folder damaged, when last looked at
	queue    []*request
	hung     int  // readers that the disk has not answered in time
	used     bool // Next or Put was called
	asked    bool // Segments was called

	w writer // owned by the writer's goroutine
}

// Open opens the spool in the folder dir and starts the goroutine that writes. It reads the index of
// each segment (a file of payloads), or, where there is no index, the metas (descriptions) of all its
// payloads. It creates dir if it is missing, and locks it until Close. Recovery says what was found.
// Open does not call Options.BeforeUnlink, and nobody else does before another method is called.
//
// It is an error if another process has the folder open (ErrInUse), or if it belongs to something else
// (ErrForeign). So is a folder that cannot be read, or not be created for lack of permission.
// durable.ErrVersion means that a later version wrote it in a way that this one cannot read. No payload
// is changed then. Damage is no error: Recovery reports it. A disk that cannot be written is none
// either, see Health. With max_size 0 Put refuses payloads, but Next still returns those that are there.
func Open(dir string, cfg Config, opts Options) (*Spool, *Recovery, error) {
	opts.fill()
	s := &Spool{
		dir: dir, o: opts, age: newClock(opts.Now, opts.Elapsed),
		lanes: map[route]*lane{}, out: map[record.BatchID]*taken{}, attempts: map[record.BatchID]int{},
		copies: map[record.BatchID]int{}, gaveUp: map[record.BatchID]bool{},
	}
	s.conf.Store(&cfg)
	s.disk = diskwriter.New(diskwriter.Options{
		Stall: opts.Stall, FirstRetry: soon, LastRetry: again, OnFail: s.tellTrouble,
		OnRecover: func(time.Duration) { opts.Logger.Info("spool writes succeed again") },
		IsNews:    func(was, err error) bool { return errors.Is(was, ErrFull) != errors.Is(err, ErrFull) },
	})
	s.w = writer{s: s, log: opts.Logger, agent: opts.Agent}
	if cfg.MaxSize > 0 {
		if err := durable.MkdirAll(opts.FS, dir); errors.Is(err, os.ErrPermission) {
			return nil, nil, fmt.Errorf("open spool %q: %w; run as a user who may write there, or set another spool.dir", dir, err)
		} else if err != nil {
			s.w.tell(err) // each new segment tries again
		}
	}
	if err := s.w.lockFolder(); errors.Is(err, ErrInUse) {
		return nil, nil, fmt.Errorf("open spool %q: %w; stop that one, or give this one a spool.dir of its own", dir, err)
	}
	rec, err := s.readFolder()
	if err != nil {
		s.w.unlock()
		switch {
		case errors.Is(err, unix.ENOTDIR):
			return nil, nil, fmt.Errorf("open spool %q: %w; set spool.dir to a folder, or remove the file that is in its place", dir, err)
		case errors.Is(err, ErrForeign):
			return nil, nil, fmt.Errorf("open spool %q: %w; set spool.dir to a folder that holds the spool of this agent alone", dir, err)
		}
		return nil, nil, fmt.Errorf("open spool %q: %w", dir, err)
	}
	s.rec = rec
	go s.disk.Run(s.w.turn, s.w.due) // started here; ends when Close asks it to; Close waits
	return s, rec, nil
}

// SetConfig replaces the bounds; Dir is ignored. What is in the spool stays, even if it exceeds the
// new bound: then the next Put fails or drops payloads.
func (s *Spool) SetConfig(cfg Config) {
	s.conf.Store(&cfg)
	s.disk.Wake()
}

func (s *Spool) cfg() *Config { return s.conf.Load() }

// segmentSize returns how many bytes a segment takes before the next one is begun.
func (s *Spool) segmentSize() int64 {
	return cmp.Or(s.o.SegmentSize, min(64<<20, max(64<<10, int64(s.cfg().MaxSize)/8)))
}

func (s *Spool) path(name string) string { return filepath.Join(s.dir, name) }

// Health returns nil if the spool takes payloads, and after Close; otherwise why it does not: ErrOff,
// ErrFull, record.ErrStalled (a read or a write hangs) or an error of the disk. The spool checks by
// itself whether the reason is over.
func (s *Spool) Health() error {
	trouble := s.disk.Err()
	switch {
	case s.disk.Closed():
		return nil
	case s.cfg().MaxSize <= 0:
		return ErrOff
	case s.disk.Stalls():
		return fmt.Errorf("write spool: %w", record.ErrStalled)
	case s.hangers(0) > 0:
		return fmt.Errorf("read spool: %w", record.ErrStalled)
	case trouble != nil:
		return fmt.Errorf("write spool: %w", trouble)
	}
	return nil
}

// tellTrouble logs err, the reason why payloads cannot be written, with advice on what to do. s.disk
// calls it when the trouble begins, and when it changes from or to ErrFull.
func (s *Spool) tellTrouble(err error) {
	fix := durable.Fix(err, "the spool")
	if errors.Is(err, ErrFull) {
		fix = "let the service take what waits, raise spool.max_size, or make room on the disk of the spool"
	}
	s.o.Logger.Error("spool write failed: unsent records stay in memory or in their source files", "err", err, "fix", fix)
}

// Close writes the payloads that callers of Put wait for, finishes the segment being written and
// ends the writer; the error is that of finishing. Payloads that Next gave out stay for the next
// run unless they ended. If the disk does not answer, Close returns record.ErrStalled at the latest
// Options.Stall after the disk stopped answering. A second Close does nothing.
func (s *Spool) Close() error { return s.disk.Close() }
