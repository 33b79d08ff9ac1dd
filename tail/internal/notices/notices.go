// Package notices promises that what keeps a file, a folder or an input from being read is logged
// once, with what to do about it, and once more when it is over; in between it can be asked for.
package notices

import (
	"iter"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

// Subject is what a notice is about: a path, for all inputs or for one of several that may
// read it; without a path, an input as a whole.
type Subject struct{ Path, Input string }

// String returns the subject as the status shows it: the path, and the input if only one of several
// is concerned.
func (s Subject) String() string {
	switch {
	case s.Path == "":
		return "input " + s.Input
	case s.Input == "":
		return s.Path
	}
	return s.Path + " for input " + s.Input
}

// Notice is why a subject is not read, and what can be done about it.
type Notice struct {
	Why    string
	Fix    string
	Unread bool   // records may be left unread because of it
	scan   uint64 // number of the scan in which it was reported last
}

// Board has the notices that are in force. It is for any goroutine.
type Board struct {
	log  *slog.Logger
	scan atomic.Uint64 // number of the scan under way

	mu  sync.Mutex
	now map[Subject]Notice // guarded by mu
	len atomic.Int64       // of now
}

// New returns a board without notices, which logs to log.
func New(log *slog.Logger) *Board { return &Board{log: log, now: make(map[Subject]Notice)} }

// Begin says that a scan of the folders begins, which has this number.
func (b *Board) Begin(scan uint64) { b.scan.Store(scan) }

// Report puts up a notice that the subject cannot be read because of err, or takes it down if err is
// nil. It logs that if it is news: a reason that differs from the one before in numbers only is none.
func (b *Board) Report(about Subject, err error) { b.report(about, err, false) }

// ReportFirst is Report, but does nothing if the subject has a notice from the scan under way: two
// reasons would take turns without end.
func (b *Board) ReportFirst(about Subject, err error) { b.report(about, err, true) }

func (b *Board) report(about Subject, err error, first bool) {
	was, now, ok := b.set(about, err, first)
	if !ok || isSame(now.Why, was.Why) {
		return
	}
	bad, good, where := "input has no file, will look again", "input has files again", []any(nil)
	if about.Path != "" {
		bad, good, where = "file cannot be read, will retry", "file can be read again", []any{"file", about.Path}
	}
	if about.Input != "" {
		where = append(where, "input", about.Input)
	}
	if err != nil {
		b.log.Warn(bad, append(where, "err", err, "fix", now.Fix)...)
	} else {
		b.log.Info(good, where...)
	}
}

// set changes the notice about a subject, and returns what it was and is. With first, ok is false if
// it was left as it was.
func (b *Board) set(about Subject, err error, first bool) (was, now Notice, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer func() { b.len.Store(int64(len(b.now))) }()
	scan := b.scan.Load()
	was, there := b.now[about]
	if first && there && was.scan == scan {
		return was, was, false
	}
	if err == nil {
		delete(b.now, about)
		return was, Notice{}, true
	}
	now = Notice{Why: err.Error(), Fix: FixOf(err), Unread: isUnread(err), scan: scan}
	b.now[about] = now
	return was, now, true
}

// Of returns the notice about a subject, and whether there is one.
func (b *Board) Of(about Subject) (Notice, bool) {
	if b.len.Load() == 0 {
		return Notice{}, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	n, there := b.now[about]
	return n, there
}

// All returns the notices of this moment.
func (b *Board) All() iter.Seq2[Subject, Notice] {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.All(maps.Clone(b.now))
}

// Forget takes down the notices that drop names, and logs nothing.
func (b *Board) Forget(drop func(Subject) bool) {
	b.remove(func(s Subject, _ Notice) bool { return drop(s) })
}

// Expire takes down the notices that the scan under way has not reported again, but for those that
// one input has of a path that is still read: their readers report when that is over.
func (b *Board) Expire(isRead func(path string) bool) {
	scan := b.scan.Load()
	b.remove(func(s Subject, n Notice) bool { return n.scan < scan && (s.Input == "" || !isRead(s.Path)) })
}

func (b *Board) remove(drop func(Subject, Notice) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.now, drop)
	b.len.Store(int64(len(b.now)))
}

// isSame reports whether two reasons are equal, or differ in numbers only: a number such as free
// space changes with every try. An empty reason equals only an empty one.
func isSame(a, b string) bool {
	wordsOf := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' {
				return -1
			}
			return r
		}, s)
	}
	return a == b || a != "" && b != "" && wordsOf(a) == wordsOf(b)
}
