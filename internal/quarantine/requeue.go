package quarantine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"kusto-agent/internal/durable"
)

// Requeue is what is being sent again: the records of some lines, in one batch.
type Requeue struct {
	Time     time.Time `json:"time"`
	Batch    string    `json:"batch"`
	Database string    `json:"database"`
	Table    string    `json:"table"`
	Lines    []string  `json:"lines"` // their IDs
}

const requeueName = "requeue.json"

// noteVersion is that of the note of Begin, which does not tell it. Keys may be added; for
// any other change a later one has the key version and its number.
const noteVersion = 1

// sentName is the file of what Accepted was told, one line for each call: the version, a
// checksum of what follows it, and the IDs.
const sentName = "requeue.accepted"

const sentVersion = "1"

// errUnsettled refuses a Begin beside the note of an earlier one.
var errUnsettled = errors.New("what became of an earlier requeue could not be written down; its records may be stored, and the next start of the agent marks them")

// Begin writes a note, durably, of the records that are about to be sent again. If it returns an error
// nothing may be sent. The caller calls End, or Accepted, when it is known what came of the sending,
// and before the next Begin. If the note is found at a start, the records may be stored already; until
// then it is not written over.
func (s *Store) Begin(r Requeue) error {
	earlier, err := s.begun()
	if earlier != nil {
		err = errUnsettled
	}
	if err = cmp.Or(s.sentErr, err); err != nil {
		return fmt.Errorf("note what is sent again: %w", err)
	}
	b, err := json.Marshal(&r)
	if err != nil {
		return err
	}
	err = durable.WriteAtomic(s.o.FS, filepath.Join(s.dir, requeueName), func(w io.Writer) error {
		_, err := w.Write(append(b, '\n'))
		return err
	})
	if err != nil {
		_ = s.End() // nothing is sent; what stays is one more note for the next start
		return fmt.Errorf("note what is sent again: %w", err)
	}
	return nil
}

// Accepted removes, durably, lines whose records were sent again and accepted by the service, and then
// the note of Begin. It only writes down their IDs: their files are replaced with
// the next Edit, and until then List and all else pass the lines over. After an error they
// may still be there, and so is the note. ctx ends the wait for another write.
func (s *Store) Accepted(ctx context.Context, ids []string) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	defer s.disk.Give()
	if err := s.appendSent(ids); err != nil {
		return fmt.Errorf("note what was accepted: %w", cause(err))
	}
	if s.sent == nil {
		s.sent = map[string]bool{}
	}
	for _, id := range ids {
		s.sent[id] = true
	}
	return s.End()
}

// appendSent appends a line with the IDs to the file of accepted lines, durably. It writes a newline
// before it: then what is left of a write that failed is a line of its own, without a valid checksum.
func (s *Store) appendSent(ids []string) error {
	path := filepath.Join(s.dir, sentName)
	f, err := s.o.FS.Open(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	line := []byte("\n" + sentLine(ids))
	if n, err := f.WriteAt(line, size); err != nil || n < len(line) {
		return errors.Join(err, io.ErrShortWrite)
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return s.o.FS.SyncDir(s.dir)
}

func sentLine(ids []string) string {
	text := strings.Join(ids, " ")
	return fmt.Sprintf("%s %08x %s\n", sentVersion, crc32.Checksum([]byte(text), castagnoli), text)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// readSent returns the IDs of the lines that Accepted has removed and that are still in their files; nil
// if Accepted has noted none. With the error durable.ErrVersion the IDs may be incomplete: a later
// version of the program has written some.
func readSent(fsys durable.FS, dir string) (ids map[string]bool, err error) {
	b, err := readAll(fsys, filepath.Join(dir, sentName))
	if b == nil || err != nil {
		return nil, err
	}
	ids = map[string]bool{}
	for line := range bytes.Lines(b) {
		version, rest, _ := strings.Cut(string(bytes.TrimSuffix(line, []byte("\n"))), " ")
		sum, text, _ := strings.Cut(rest, " ")
		if n, err := strconv.Atoi(version); err == nil && version != sentVersion && n > 0 && len(sum) == 8 {
			return ids, fmt.Errorf("%s has version %d, and this program knows %s: %w", sentName, n, sentVersion, durable.ErrVersion)
		}
		if version != sentVersion || sum != fmt.Sprintf("%08x", crc32.Checksum([]byte(text), castagnoli)) {
			continue // a write that was cut short: the note of Begin is still there
		}
		for id := range strings.FieldsSeq(text) {
			ids[id] = true
		}
	}
	return ids, nil
}

// settleSent forgets the IDs of accepted lines, once no file has such a line any more. No write may
// run meanwhile.
func (s *Store) settleSent() error {
	if s.sent == nil || s.sentErr != nil {
		return nil
	}
	if err := s.o.FS.Remove(filepath.Join(s.dir, sentName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.sent = nil
	return s.o.FS.SyncDir(s.dir)
}

// End removes the note of Begin, durably.
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

// resolve handles what a process left that ended while it sent records again. It removes the lines that
// were accepted, and marks those whose outcome is not known (Entry.Perhaps). If the disk does not let
// it, the note of Begin stays for the next start, and until then nothing is sent again, because Begin
// would write over it. The same holds if unlisted is not nil, the error because of which s.files lacks
// the files of the folder. Only Open calls it.
func (s *Store) resolve(unlisted error) {
	if s.sent, s.sentErr = readSent(s.o.FS, s.dir); s.sentErr != nil {
		s.o.Logger.Error("cannot read which requeued records were accepted; requeue is refused, because accepted records could be stored twice", "file", sentName, "err", cause(s.sentErr), "fix", Fix(s.sentErr))
	}
	for id := range s.sent {
		name, _, _ := strings.Cut(id, ":")
		if seq, err := strconv.ParseUint(name, 16, 64); err == nil {
			s.next = max(s.next, seq+1)
		}
	}
	r, err := s.begun()
	if r != nil {
		r.Lines = slices.DeleteFunc(r.Lines, func(id string) bool { return s.sent[id] })
	}
	if r == nil && err == nil && s.sent == nil {
		return
	}
	if err == nil && r == nil {
		r = &Requeue{}
	}
	if err = cmp.Or(err, unlisted); err == nil {
		_, err = s.edit(r.Lines, func(e *Entry) bool { e.Perhaps = r.Batch; return true })
	}
	if err == nil {
		err = s.End()
	}
	if r != nil && len(r.Lines) > 0 {
		s.o.Logger.Warn("an earlier process ended during a requeue: its records may be stored, they stay in quarantine, and requeuing them again may store them twice",
			"batch", r.Batch, "database", r.Database, "table", r.Table, "records", len(r.Lines),
			"fix", "look for the records in the table: if they are there, remove them with kusto-agent quarantine rm, else send them again with kusto-agent quarantine requeue --perhaps-stored")
	}
	if err != nil {
		s.sentErr = fmt.Errorf("an interrupted requeue is not settled, the next start tries again: %w", err)
		s.o.Logger.Error("records of an interrupted requeue could not be marked in quarantine as perhaps stored; they stay there, requeue is refused, and the next start tries again", "err", err, "fix", Fix(err))
	}
}

// begun returns the note that Begin wrote; nil if there is none. The error may be durable.ErrVersion.
func (s *Store) begun() (*Requeue, error) {
	b, err := readAll(s.o.FS, filepath.Join(s.dir, requeueName))
	if b == nil || err != nil {
		return nil, err
	}
	var later struct{ Version int }
	if err := json.Unmarshal(b, &later); err != nil {
		return nil, fmt.Errorf("%s is damaged; look in the table for the records that were requeued last, then remove it: %w", requeueName, err)
	}
	if later.Version > noteVersion {
		return nil, fmt.Errorf("%s has version %d, and this program knows %d: %w", requeueName, later.Version, noteVersion, durable.ErrVersion)
	}
	r := &Requeue{}
	return r, json.Unmarshal(b, r)
}

// readAll returns the content of a small file; nil if it does not exist.
func readAll(fsys durable.FS, path string) ([]byte, error) {
	f, err := fsys.Open(path, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.NewSectionReader(f, 0, math.MaxInt64))
}
