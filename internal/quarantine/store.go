package quarantine

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"kusto-agent/internal/diskwriter"
	"kusto-agent/internal/durable"
	"kusto-agent/internal/record"
)

// ErrFull is returned when max_size leaves no room. Nothing was kept.
var ErrFull = errors.New("quarantine is full")

// ErrClosed is returned by a Put after Close.
var ErrClosed = errors.New("quarantine is closed")

// Options are what Open may be told; the zero value of each stands for what it
// says.
type Options struct {
	Logger *slog.Logger     // none: nothing is logged
	Now    func() time.Time // the time of a line; time.Now
	Stall  time.Duration    // how long a Put may wait for the disk; 5s
	FS     durable.FS       // durable.OS
	// FileSize is where the next file is begun; 64 MiB, or a quarter of
	// Config.MaxSize where that is less.
	FileSize int64
	// OnDrop is told of records that were dropped to make room, as many as follow each other
	// in their file: that, the range that they were read from, and how many they are.
	OnDrop func(f record.File, s record.Span, records int)
}

// Store is safe for concurrent use.
type Store struct {
	dir  string
	conf atomic.Pointer[Config]
	o    Options

	mu     sync.Mutex
	state  State // guarded by mu, without Err and Since, which disk knows
	wanted int64 // bytes there was no room for; guarded by mu

	disk  *diskwriter.Writer // whoever has its turn owns the fields below
	size  int64              // bytes of all files, as last looked at
	files []file             // oldest first; the last is written to while out is open
	next  uint64
	out   durable.File // nil: the next Put begins a file
	end   int64        // of the sound lines in out
	named bool         // the name of out is durable
	done  bool         // closed
	// sent are lines whose records were accepted, which the next edit removes; sentErr is
	// why it is not known which are sent again or were accepted, and is set by Open alone.
	sent    map[string]bool
	sentErr error
	// unsure says that the folder may not be there, or its name not durable.
	unsure bool
}

// Open opens the store in dir and makes dir if it is missing. No other process may use
// dir. If the newest file ends within a line, as after a crash, the store leaves it alone
// and starts a new file. If an earlier process ended while records were sent again, Open marks or
// removes their lines. A disk that cannot be written is no error of Open: each Put tries
// again. The error is a lack of permission, or one of reading a folder that exists.
func Open(dir string, cfg Config, opts Options) (*Store, error) {
	diskwriter.Default(&opts.Logger, slog.New(slog.DiscardHandler))
	diskwriter.Default(&opts.Now, time.Now)
	diskwriter.Default(&opts.Stall, 5*time.Second)
	diskwriter.Default(&opts.FS, durable.OS)
	diskwriter.Default(&opts.OnDrop, func(record.File, record.Span, int) {})
	s := &Store{dir: dir, o: opts, next: 1}
	s.conf.Store(&cfg)
	s.disk = diskwriter.New(diskwriter.Options{
		Stall: opts.Stall, OnFail: s.tellTrouble,
		OnRecover: func(time.Duration) { opts.Logger.Info("quarantine writes succeed again") },
		IsNews:    func(was, err error) bool { return was.Error() != err.Error() },
	})
	err := s.makeFolder()
	if err == nil {
		err = s.load()
	}
	if errors.Is(err, fs.ErrPermission) || err != nil && !s.unsure {
		return nil, fmt.Errorf("open quarantine %q: %w", dir, err)
	}
	if err != nil {
		s.disk.Report(fmt.Errorf("open quarantine: %w", cause(err))) // the text of look, so that it is logged once
	}
	s.resolve(err)
	return s, nil
}

// SetConfig puts another bound in force. Whoever waits for room finds it with the
// next try.
func (s *Store) SetConfig(cfg Config) { s.conf.Store(&cfg) }

func (s *Store) cfg() *Config { return s.conf.Load() }

func (s *Store) fileSize() int64 {
	return cmp.Or(s.o.FileSize, min(64<<20, max(1, int64(s.cfg().MaxSize)/4)))
}

// load lists the files with their sizes, and opens the newest for further writes if it can be
// continued. The error is one of reading.
func (s *Store) load() (err error) {
	if s.files, err = listFiles(s.o.FS, s.dir); err != nil {
		return err
	}
	for i := range s.files {
		f := &s.files[i]
		if f.size, err = durable.Size(s.o.FS, s.path(f)); err != nil {
			return err
		}
		s.size += f.size
		s.next = f.seq + 1
	}
	s.state.Bytes = s.size
	if len(s.files) == 0 {
		return nil
	}
	return s.resume(&s.files[len(s.files)-1])
}

// resume opens the newest file for writing if it is not full, has this version (lines of later ones
// begin with opening) and ends with a whole line. If not, it returns nil all the same: the next Put
// begins a new file.
func (s *Store) resume(f *file) error {
	if f.size >= s.fileSize() || f.size == 0 {
		return nil
	}
	out, err := s.o.FS.Open(s.path(f), os.O_RDWR)
	if err != nil {
		s.o.Logger.Warn("quarantine file cannot be opened for writing; it stays unchanged, and new records go to another file", "file", f.name, "err", cause(err))
		return nil
	}
	var first [len(opening)]byte
	if n, _ := out.ReadAt(first[:], 0); string(first[:n]) == opening {
		s.o.Logger.Warn("quarantine file was written by a later version; it stays unchanged, and new records go to another file", "file", f.name)
		return out.Close()
	}
	var last [1]byte
	if _, err := out.ReadAt(last[:], f.size-1); err != nil || last[0] != '\n' {
		s.o.Logger.Warn("quarantine file does not end with a whole line; it stays unchanged, and new records go to another file", "file", f.name)
		return out.Close()
	}
	s.out, s.end = out, f.size // its name is synced again with the next lines
	return nil
}

func (s *Store) path(f *file) string { return filepath.Join(s.dir, f.name) }

// Put keeps records: once it returned nil they survive a power cut. It returns
// ErrFull where max_size leaves no room for all of them, record.ErrStalled where
// the disk does not answer in time, or the disk's error; then none of them may
// be counted as kept, though some may be there. Their bytes are not used after
// it returned. It looks at the folder each time, so it goes on by itself when a
// person made room, or moved files away.
func (s *Store) Put(recs []record.Rejected) error {
	var lines []byte
	var err error
	now := s.o.Now()
	for i := range recs {
		if lines, err = appendEntry(lines, &Entry{Time: now, Rejected: recs[i]}); err != nil {
			return err
		}
	}
	if len(lines) == 0 {
		return nil
	}
	var dropped []drop
	err = s.disk.Do(s.o.Stall, func() (err error) {
		dropped, err = s.write(lines, recs)
		return err
	}, func(err error) {
		s.settle(err, len(recs), int64(len(lines)))
		s.tellDropped(dropped)
	})
	if errors.Is(err, record.ErrStalled) {
		s.disk.GiveUp()
	}
	return err
}

// write makes room for lines, then appends them and syncs them. It returns what it dropped to make
// room even if it fails. recs are the records of the lines. No other write may run meanwhile.
func (s *Store) write(lines []byte, recs []record.Rejected) (dropped []drop, err error) {
	if s.done {
		return nil, ErrClosed
	}
	if err := s.look(); err != nil {
		return nil, err
	}
	if s.cfg().WhenFull == "drop_oldest" {
		return s.writeParts(lines, recs)
	}
	if !s.fits(int64(len(lines))) {
		return nil, s.errFull(int64(len(lines)))
	}
	return nil, s.writeTo(lines)
}

// writeTo appends lines to the newest file, or to a new one if that is full, durably. There must be
// room for them, and no other write may run meanwhile.
func (s *Store) writeTo(lines []byte) error {
	if s.out != nil && s.end >= s.fileSize() {
		if err := s.finish(); err != nil {
			return err
		}
	}
	if s.out == nil {
		if err := s.begin(); err != nil {
			return err
		}
	}
	return s.append(lines)
}

// append writes lines to the end of the newest file and syncs the file, then the folder
// that holds its name. After an error that leaves the content of the file unknown, the file is not
// written to any more.
func (s *Store) append(lines []byte) error {
	if n, err := s.out.WriteAt(lines, s.end); err != nil || n < len(lines) {
		if s.out.Truncate(s.end) != nil {
			s.abandon(int64(n))
		}
		return fmt.Errorf("write quarantine: %w", cmp.Or(cause(err), io.ErrShortWrite))
	}
	if err := s.out.Sync(); err != nil {
		s.abandon(int64(len(lines)))
		return fmt.Errorf("sync quarantine: %w", cause(err))
	}
	if !s.named {
		if err := s.o.FS.SyncDir(s.dir); err != nil {
			s.abandon(int64(len(lines)))
			return fmt.Errorf("sync quarantine folder: %w", cause(err))
		}
		s.named = true
	}
	s.grow(int64(len(lines)))
	return nil
}

func (s *Store) grow(n int64) {
	s.end += n
	s.files[len(s.files)-1].size += n
	s.size += n
}

// begin creates the next file of the store, for append to write to. It is not durable before append
// syncs it. No other write may run meanwhile.
func (s *Store) begin() error {
	f := file{name: fmt.Sprintf("%016x%s", s.next, suffix), seq: s.next}
	out, err := s.o.FS.Open(s.path(&f), os.O_RDWR|os.O_CREATE|os.O_EXCL)
	s.next++
	if err != nil {
		return fmt.Errorf("create quarantine file: %w", cause(err))
	}
	s.files = append(s.files, f)
	s.out, s.end, s.named = out, 0, false
	return nil
}

// abandon closes the newest file for good, because its last n bytes may not be on disk and
// no later sync could tell. It removes the file if it holds nothing else, so that a disk
// that keeps failing does not fill the folder with files.
func (s *Store) abandon(n int64) {
	s.out.Close()
	s.out = nil
	last := &s.files[len(s.files)-1]
	if s.end == 0 && s.o.FS.Remove(s.path(last)) == nil {
		s.files = s.files[:len(s.files)-1]
		return
	}
	s.grow(n)
}

// finish closes the newest file, to which nothing more is to be written. All of its lines are synced.
func (s *Store) finish() error {
	err := s.out.Close()
	s.out = nil
	if err != nil {
		return fmt.Errorf("close quarantine file: %w", cause(err))
	}
	return nil
}

// Close closes the store; a Put after it fails with ErrClosed. If the disk does not answer within
// Options.Stall, the error is record.ErrStalled.
func (s *Store) Close() error {
	return s.disk.Do(s.o.Stall, func() error {
		if s.done = true; s.out == nil {
			return nil
		}
		return s.finish()
	}, func(error) {})
}
