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

// Edit calls change for each of the lines with these IDs. If change returns false, the line is removed,
// otherwise it is kept with the Reason, Code, Message and Perhaps that change has set. Edit returns
// the IDs of the lines that are durably removed or changed. Each file is replaced as a whole, so that
// after a crash at any moment it has all of its lines as they were, or as they are to be.
// Lines that do not exist, or have no newline at their end, are passed over; a damaged one can only
// be removed. If an error is returned, the lines of some files may be done: their IDs are returned.
//
// The lines that Accepted has marked as removed are taken out of their files with the same writes.
// ctx ends the wait for another write.
func (s *Store) Edit(ctx context.Context, ids []string, change func(*Entry) (keep bool)) (done []string, err error) {
	if err := s.take(ctx); err != nil {
		return nil, err
	}
	defer s.disk.Give()
	if err := s.look(); err != nil {
		return nil, err
	}
	defer s.refresh()
	return s.edit(ids, change)
}

// take waits for the turn to write, which the caller gives back with s.disk.Give. The error is that of
// ctx, or ErrClosed; then there is nothing to give back.
func (s *Store) take(ctx context.Context) error {
	err := s.disk.Take(ctx)
	if err == nil && s.done {
		s.disk.Give()
		return ErrClosed
	}
	return err
}

// edit does what Edit says. No other write may run meanwhile.
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

// editFile calls change for each line of a quarantine file whose ID is in wanted. It replaces the file
// by one without the lines for which change returned false, and without those in s.sent (accepted since
// they were sent again). A removed line leaves an empty one, so that the others keep their numbers. If
// no line is left, the file is removed, but the newest is emptied instead. done has the IDs of the lines
// that were changed or removed; nil if the file stays as it is, as without such a line.
func (s *Store) editFile(f *file, wanted map[string]bool, change func(*Entry) bool) (done []string, err error) {
	has := false // a line to change or to remove
	err = lines(s.o.FS, s.dir, f.name, s.sent, func(e *Entry) error { has = has || !e.Torn && (wanted[e.ID()] || s.sent[e.ID()]); return nil })
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
		err := lines(s.o.FS, s.dir, f.name, s.sent, func(e *Entry) error {
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
			return nil // the newest file stays, empty, so that its number is not used again
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
