package quarantine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"kusto-agent/internal/durable"
)

// Edit has change decide on lines, by their IDs: false removes the line, true keeps it
// with the Reason, Code, Message and Perhaps that change has set. It returns the IDs of
// those that are removed or changed, durably so. Each file is replaced as a whole, so that
// after a crash at any moment it has all of its lines as they were, or as they are to be.
// Lines that are not there, or have no end, are passed over; one that is damaged is kept as
// it is, or removed. With an error the lines of some files may be done: they are returned.
//
// What Accepted has noted is removed with the same writes.
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
	for i := 0; i < len(s.files) && (len(wanted) > len(done) || len(s.sent) > 0); i++ {
		here, err := s.editFile(&s.files[i], wanted, change)
		if done = append(done, here...); err != nil {
			return done, fmt.Errorf("change quarantine file %q: %w", s.files[i].name, err)
		}
	}
	s.measure()
	return done, s.settleSent()
}

// editFile replaces one file, if a line of it is wanted, or removes it if none is left.
func (s *Store) editFile(f *file, wanted map[string]bool, change func(*Entry) bool) (done []string, err error) {
	has := false
	err = s.lines(f, func(e *Entry) error { has = has || !e.Torn && (wanted[e.ID()] || s.sent[e.ID()]); return nil })
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
		case ended && (len(b) == 0 || s.sent[idOf(f.name, n)]):
			e, b = Entry{}, nil
		case ended:
			e = readLine(b)
		}
		e.Name, e.Line, e.Raw = f.name, n, b
		return fn(&e)
	})
}
