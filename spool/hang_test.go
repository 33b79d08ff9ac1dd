package spool

import (
	"bytes"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/internal/record"
)

// hangingReads is a disk whose reads wait for thaw, where there is one.
type hangingReads struct {
	*faultfs.FS
	thaw chan struct{}
}

type hangingFile struct {
	durable.File
	thaw chan struct{}
}

func (h *hangingReads) Open(name string, flag int) (durable.File, error) {
	f, err := h.FS.Open(name, flag)
	if err == nil && h.thaw != nil {
		f = &hangingFile{f, h.thaw}
	}
	return f, err
}

func (h *hangingFile) ReadAt(b []byte, off int64) (int, error) {
	<-h.thaw
	return h.File.ReadAt(b, off)
}

// A disk that does not answer a read holds nobody longer than the bound, and the
// next one not at all. What was asked for comes once it answers.
func TestReadOfStalledDisk(t *testing.T) {
	for _, reopened := range []bool{false, true} { // then the index is read before
		synctest.Test(t, func(t *testing.T) {
			fs := &hangingReads{FS: faultfs.New("/state")}
			o := testOptions(fs.FS)
			o.FS, o.Stall = fs, 5*time.Second
			s, _ := openWith(t, testConfig, o)
			put(t, s, here, 1, 2)
			if reopened {
				must(t, s.Close())
				s, _ = openWith(t, testConfig, o)
			}
			fs.thaw = make(chan struct{})
			start := time.Now()
			for range 3 {
				if p, _ := s.Next(to(here)); p != nil || time.Since(start) != 5*time.Second {
					t.Errorf("next: %v after %v, want nothing after 5s", p, time.Since(start))
				}
			}
			if err := s.Health(); !errors.Is(err, record.ErrStalled) {
				t.Errorf("health: %v, want ErrStalled", err)
			}
			close(fs.thaw)
			synctest.Wait()
			must(t, s.Health())
			if got := drain(t, s, here); !slices.Equal(got, []int{1, 2}) {
				t.Errorf("drained %v", got)
			}
			must(t, s.Close())
		})
	}
}

// That the disk hangs is told once, and that it answers again; an end that comes
// meanwhile waits no more.
func TestStallIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, hang, thaw := hangable()
		var log bytes.Buffer
		o := testOptions(fs)
		o.Stall, o.Logger = 5*time.Second, slog.New(slog.NewTextHandler(&log, nil))
		s, _ := openWith(t, testConfig, o)
		put(t, s, here, 1)
		hang.Store(true)
		for n := range 3 {
			if err := s.Put(payload(2+n, here)); !errors.Is(err, record.ErrStalled) {
				t.Errorf("put: %v, want ErrStalled", err)
			}
			waitFor(time.Second)
		}
		start := time.Now()
		if err := s.Close(); !errors.Is(err, record.ErrStalled) || time.Since(start) > 0 {
			t.Errorf("close: %v after %v, want ErrStalled at once", err, time.Since(start))
		}
		hang.Store(false)
		close(thaw)
		synctest.Wait()
		for _, what := range []string{"spool write failed", "spool writes succeed again"} {
			if n := strings.Count(log.String(), what); n != 1 {
				t.Errorf("told %d times: %s", n, what)
			}
		}
	})
}

// A disk that takes nothing at the start is told of like one that does so later.
func TestOpenOnBadDiskIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.New("/")
		var bad atomic.Bool
		bad.Store(true)
		fs.Judge = func(faultfs.Op) (v faultfs.Verdict) {
			if bad.Load() {
				v.Err = faultfs.NoSpace
			}
			return v
		}
		var log bytes.Buffer
		o := testOptions(fs)
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		s, _ := openWith(t, testConfig, o)
		if !errors.Is(s.Health(), faultfs.NoSpace) || strings.Count(log.String(), "spool write failed") != 1 {
			t.Errorf("health %v, log %s", s.Health(), log.String())
		}
		bad.Store(false)
		waitFor(again)
		must(t, s.Health())
		if strings.Count(log.String(), "spool writes succeed again") != 1 {
			t.Errorf("log %s", log.String())
		}
		must(t, s.Close())
	})
}

// A folder that is not there yet will be on the disk of the one above.
func TestFreeOfMissingFolder(t *testing.T) {
	dir := t.TempDir()
	want, err := statfs(dir)
	must(t, err)
	got, err := statfs(filepath.Join(dir, "a", "b"))
	must(t, err)
	if want == 0 || got == 0 {
		t.Errorf("%d and %d bytes are free", got, want)
	}
}
