package quarantine

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"kusto-agent/internal/durable"
)

// Edit has change decide on lines, by their IDs: false removes the line, true keeps it
// with the Reason, Code, Message and Perhaps that change has set. It returns the IDs of
// those that are removed or changed, durably so. Each file is replaced as a whole, so that
// after a crash at any moment it has all of its lines as they were, or as they are to be.
// Lines that are not there, or have no end, are passed over; one that is damaged is kept as
// it is, or removed. With an error the lines of some files may be done: they are returned.
func (s *Store) Edit(ctx context.Context, ids []string, change func(*Entry) (keep bool)) (done []string, err error) {
	if err := s.disk.Take(ctx); err != nil {
		return nil, err
	}
	defer s.disk.Give()
	if s.done {
		return nil, ErrClosed
	}
	if err := s.look(); err != nil {
		return nil, err
	}
	defer s.refresh()
	return s.edit(ids, change)
}

// edit is Edit. The caller has the turn.
func (s *Store) edit(ids []string, change func(*Entry) bool) (done []string, err error) {
	wanted := make(map[string]bool, len(ids))
	for _, id := range ids {
		wanted[id] = true
	}
	for i := 0; i < len(s.files) && len(wanted) > len(done); i++ {
		here, err := s.editFile(&s.files[i], wanted, change)
		if done = append(done, here...); err != nil {
			return done, fmt.Errorf("change quarantine file %q: %w", s.files[i].name, err)
		}
	}
	s.measure()
	return done, nil
}

// editFile replaces one file, if a line of it is wanted, or removes it if none is left.
func (s *Store) editFile(f *file, wanted map[string]bool, change func(*Entry) bool) (done []string, err error) {
	has := false
	err = s.lines(f, func(e *Entry) error { has = has || wanted[e.ID()] && !e.Torn; return nil })
	if errors.Is(err, fs.ErrNotExist) || err == nil && !has {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	last := &s.files[len(s.files)-1] == f
	if last && s.out != nil {
		if err := s.finish(); err != nil {
			return nil, err
		}
	}
	left := 0
	err = durable.WriteAtomic(s.o.FS, s.path(f), func(w io.Writer) error {
		b := bufio.NewWriterSize(w, 256<<10)
		var buf []byte
		err := s.lines(f, func(e *Entry) error {
			id, raw := e.ID(), e.Raw
			if len(raw) > 0 && wanted[id] && !e.Torn {
				done = append(done, id)
				if keep := change(e); !keep {
					raw = nil
				} else if e.Err == nil {
					var err error
					if buf, err = appendEntry(buf[:0], e); err != nil {
						return err
					}
					raw = buf[:len(buf)-1]
				}
			}
			if len(raw) > 0 {
				left++
			}
			if _, err := b.Write(raw); err != nil || e.Torn {
				return err
			}
			return b.WriteByte('\n')
		})
		if err == nil && left == 0 && last {
			return nil // its number is not to be given again
		}
		return errors.Join(err, b.Flush())
	})
	if err != nil {
		return nil, err
	}
	if left == 0 && !last {
		if err := s.o.FS.Remove(s.path(f)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return done, err
		}
		return done, s.o.FS.SyncDir(s.dir)
	}
	return done, nil
}

// lines calls fn for every line of a file, those too that were removed.
func (s *Store) lines(f *file, fn func(*Entry) error) error {
	n := 0
	return eachLine(s.o.FS, s.path(f), func(b []byte, ended bool) error {
		n++
		e := Entry{Err: errTorn, Torn: true}
		switch {
		case ended && len(b) == 0:
			e = Entry{}
		case ended:
			e = readLine(b)
		}
		e.Name, e.Line, e.Raw = f.name, n, b
		return fn(&e)
	})
}

// Requeue is what is being sent again: the records of some lines, in one batch.
type Requeue struct {
	Time     time.Time `json:"time"`
	Batch    string    `json:"batch"`
	Database string    `json:"database"`
	Table    string    `json:"table"`
	Lines    []string  `json:"lines"` // their IDs
}

const requeueName = "requeue.json"

// Begin notes, before they are sent, which records are sent again. After the returned error
// nothing may be sent. End follows when it is known and written what came of it; there is
// one at a time.
func (s *Store) Begin(r Requeue) error {
	b, err := json.Marshal(&r)
	if err != nil {
		return err
	}
	err = durable.WriteAtomic(s.o.FS, filepath.Join(s.dir, requeueName), func(w io.Writer) error {
		_, err := w.Write(append(b, '\n'))
		return err
	})
	if err != nil {
		return fmt.Errorf("note what is sent again: %w", err)
	}
	return nil
}

// End takes back the note of Begin.
func (s *Store) End() error {
	err := s.o.FS.Remove(filepath.Join(s.dir, requeueName))
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = s.o.FS.SyncDir(s.dir)
	}
	if err != nil {
		return fmt.Errorf("take back the note of what was sent again: %w", err)
	}
	return nil
}

// resolve has the lines say so that an earlier process was sending again when it came to
// a sudden end. Where the disk does not let it, the note stays for the next start. The
// caller has the turn.
func (s *Store) resolve() {
	r, err := s.begun()
	if r == nil && err == nil {
		return
	}
	if err == nil {
		_, err = s.edit(r.Lines, func(e *Entry) bool { e.Perhaps = r.Batch; return true })
	}
	if err == nil {
		err = s.End()
	}
	if r != nil {
		s.o.Logger.Warn("an earlier process ended during a requeue: its records may be stored, they stay in quarantine, and requeuing them again may store them twice",
			"batch", r.Batch, "database", r.Database, "table", r.Table, "records", len(r.Lines),
			"fix", "look for the records in the table: if they are there, remove them with kusto-agent quarantine rm, else requeue them again")
	}
	if err != nil {
		s.o.Logger.Error("marker file of an interrupted requeue could not be processed and removed; the next start tries again", "err", err, "fix", Fix(err))
	}
}

// begun is the note of Begin; nil: there is none.
func (s *Store) begun() (*Requeue, error) {
	f, err := s.o.FS.Open(filepath.Join(s.dir, requeueName), 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	r := &Requeue{}
	return r, json.Unmarshal(b, r)
}
