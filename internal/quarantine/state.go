package quarantine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"kusto-agent/internal/durable"
)

// State is how quarantine fares.
type State struct {
	Bytes   int64     // on disk
	Dropped uint64    // records that this store removed to make room
	Err     error     // why nothing is kept now; nil: all is, as far as is known
	Since   time.Time // when Err began
}

// moment is how long State waits for the disk.
const moment = 100 * time.Millisecond

// State returns the state of quarantine, after a look at the folder for room that a person
// made. If the disk does not answer within 100 ms, it returns the last known state.
func (s *Store) State() State {
	_ = s.disk.Do(moment, func() error { s.refresh(); return nil }, func(error) {})
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.state
	st.Since, st.Err = s.disk.Trouble()
	return st
}

// refresh notices what a person changed in the folder, and measures the files. If the last write failed
// for lack of room and would fit now, that trouble is reported as over. No write may run meanwhile.
func (s *Store) refresh() {
	if s.done || s.look() != nil {
		return
	}
	s.measure()
	s.mu.Lock()
	over := errors.Is(s.disk.Err(), ErrFull) && s.size+s.wanted <= int64(s.cfg().MaxSize)
	s.state.Bytes = s.size
	s.mu.Unlock()
	if over {
		s.disk.Report(nil)
	}
}

// settle notes how a write of n bytes, the lines of so many records, ended. A lack of room for several
// records is not reported as trouble yet: the caller of Put may try again with fewer. No write may run
// meanwhile.
func (s *Store) settle(err error, records int, n int64) {
	s.mu.Lock()
	s.state.Bytes = s.size
	told := records == 1 || !errors.Is(err, ErrFull)
	if told {
		s.wanted = n
	}
	s.mu.Unlock()
	if told && !errors.Is(err, ErrClosed) {
		s.disk.Report(err)
	}
}

// tellTrouble logs why nothing is kept.
func (s *Store) tellTrouble(err error) {
	s.o.Logger.Error("quarantine write failed: a file with a bad record waits at that record", "folder", s.dir, "err", err, "fix", Fix(err))
}

// Fix returns what a person can do about an error of Put.
func Fix(err error) string {
	switch {
	case errors.Is(err, ErrFull):
		return "look at it with kusto-agent quarantine ls, then give records up with kusto-agent quarantine rm, or raise quarantine.max_size"
	case errors.Is(err, fs.ErrPermission):
		return durable.Fix(err, "state_dir/quarantine")
	}
	return durable.Fix(err, "state_dir")
}

// cause returns the error without its path. The path has a number that changes at each
// try, and a repeated error has to read the same.
func cause(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// errFull returns ErrFull with the limit in its text, for lines of n bytes that do not fit.
func (s *Store) errFull(n int64) error {
	if n > int64(s.cfg().MaxSize) {
		return fmt.Errorf("%w: this alone is more than quarantine.max_size, which is %v", ErrFull, s.cfg().MaxSize)
	}
	return fmt.Errorf("%w: quarantine.max_size is %v", ErrFull, s.cfg().MaxSize)
}
