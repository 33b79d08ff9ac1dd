package durable

import (
	"errors"
	"fmt"
	"os"
)

// maxUnsynced is how many bytes of frames a segment keeps in memory until they
// are synced. Above it Append syncs by itself.
const maxUnsynced = 16 << 20

// Segment is a framed log being written. It is not safe for concurrent use.
//
// After the first error of a write or a sync the segment is abandoned: every
// later call returns that error and its file is not touched again. What was
// appended since the last good Sync is in Unsynced, to be written anew to
// another segment.
type Segment struct {
	fs     FS
	file   File
	path   string
	header Header

	size, synced int64
	record       uint64 // id of the next record
	unsynced     []Frame
	unsyncedLen  int64
	failed       error
	buf          []byte
}

// Create creates the segment path, which begins with the frames of first. Once it has returned nil,
// the segment, its name and those frames survive a power cut; after a crash before that there is no
// file of that name, or all of it. An existing file is never replaced: the error is then fs.ErrExist.
// room bytes are allocated for later frames, so that a full disk fails here.
func Create(fsys FS, path string, h Header, room int64, first ...Frame) (*Segment, error) {
	s, err := Draft(fsys, path, h, room)
	if err != nil {
		return nil, err
	}
	named := false
	err = s.Append(first...)
	if err == nil {
		err = s.Reserve(room)
	}
	if err == nil {
		err = commit(fsys, s.file, path, func(from, to string) error {
			err := fsys.RenameNew(from, to)
			named = err == nil
			return err
		})
	}
	if err != nil {
		s.file.Close()
		if named { // by this call, so it is nobody else's
			_ = fsys.Remove(path)
		}
		return nil, err
	}
	s.Named(s.size)
	s.unsynced, s.unsyncedLen = nil, 0
	return s, nil
}

// Draft creates a segment under the temporary name of path, without frames. It is written to like any
// other, but readers ignore it until Name is called. room is the number of bytes that Reserve will be
// called with.
func Draft(fsys FS, path string, h Header, room int64) (*Segment, error) {
	f, err := createTemp(fsys, path)
	if err != nil {
		return nil, err
	}
	h.Room = uint32(min(room>>10, 1<<32-1))
	s := &Segment{fs: fsys, file: f, path: path, header: h, record: h.FirstRecord}
	if err := s.write(appendHeader(nil, &s.header)); err != nil {
		f.Close()
		return nil, err
	}
	return s, nil
}

// Reserve allocates room bytes for frames to come, so that a full disk fails here. After an error the
// segment is abandoned: all later calls return that error.
func (s *Segment) Reserve(room int64) error {
	if s.failed != nil {
		return s.failed
	}
	if err := s.file.Allocate(s.size + room); err != nil {
		return s.abandon(fmt.Errorf("allocate segment %q: %w", s.path, err))
	}
	return nil
}

// ReserveSome does what Reserve does, but allocates half of room, or half of that and so on down to
// least, on a disk that has less.
func (s *Segment) ReserveSome(room, least int64) error {
	for ; s.failed == nil && room/2 >= least; room /= 2 {
		if s.file.Allocate(s.size+room) == nil {
			return nil
		}
		if err := s.file.Truncate(s.size); err != nil { // gives back what was allocated in part
			return s.abandon(fmt.Errorf("allocate segment %q: %w", s.path, err))
		}
	}
	return s.Reserve(room)
}

// Name gives a draft its final name. Once it has returned nil the segment, its name and what was
// appended before the call survive a power cut. It may run at the same time as Append and Sync, which
// learn by Named what it made durable.
func (s *Segment) Name() error { return commit(s.fs, s.file, s.path, s.fs.RenameNew) }

// Named records that the first size bytes are durable because Name has synced them.
func (s *Segment) Named(size int64) { s.synced = max(s.synced, size) }

// largeBody is from how many bytes on a body is written from where it lies: a
// copy would cost its size once more.
const largeBody = 256 << 10

// encode returns the bytes of frames for the end of the segment, in parts that are to be written one
// after another. Large bodies are parts of their own and are not copied; the first part lies in s.buf. It
// also advances the id of the next record.
func (s *Segment) encode(frames []Frame) (parts [][]byte, err error) {
	b := s.buf[:0]
	at := place{seq: s.header.Seq, offset: s.size, record: s.record, synced: s.synced}
	for i := range frames {
		f := &frames[i]
		if len(f.Meta)+len(f.Body) > MaxFrame {
			return nil, fmt.Errorf("append %d bytes: %w", len(f.Meta)+len(f.Body), ErrTooLarge)
		}
		if len(f.Body) < largeBody {
			b = append(appendHead(b, f, at), f.Body...)
		} else {
			parts = append(parts, appendHead(b, f, at), f.Body)
			b = nil
		}
		b = appendTail(b, f)
		at.offset += f.size()
		at.record += uint64(f.Records)
	}
	s.record = at.record
	return append(parts, b), nil
}

// Append writes frames at the end of the segment. They survive the end of the process, and a power cut
// once Sync has returned nil. A process that ends during Append leaves a torn frame, which readers
// ignore. The segment keeps the bytes of the frames until Sync; the caller must not change them.
func (s *Segment) Append(frames ...Frame) error {
	if s.failed != nil {
		return s.failed
	}
	parts, err := s.encode(frames)
	if err != nil {
		return err
	}
	s.unsynced = append(s.unsynced, frames...)
	for i := range frames {
		s.unsyncedLen += frames[i].size()
	}
	if err := s.write(parts...); err != nil {
		return s.abandon(err)
	}
	if s.buf = parts[0]; cap(s.buf) > 1<<20 {
		s.buf = nil
	}
	if s.unsyncedLen > maxUnsynced {
		return s.Sync()
	}
	return nil
}

// Sync makes all that was appended durable. After an error the segment is abandoned: all later calls
// return that error.
func (s *Segment) Sync() error {
	if s.failed != nil || s.synced == s.size {
		return s.failed
	}
	if err := s.file.Sync(); err != nil {
		return s.abandon(fmt.Errorf("sync segment %q: %w", s.path, err))
	}
	s.synced = s.size
	s.unsynced, s.unsyncedLen = nil, 0
	return nil
}

// abandon closes the file for good after the error err and returns it, as all later calls do. An
// error of closing is ignored, since what was not synced counts as lost already.
func (s *Segment) abandon(err error) error {
	s.failed = err
	s.file.Close()
	return err
}

// Unsynced returns the frames appended since the last good Sync, those of a
// failed Append included.
func (s *Segment) Unsynced() []Frame { return s.unsynced }

// Size is the bytes written, the segment's header included.
func (s *Segment) Size() int64 { return s.size }

// Synced is how many of these bytes are known to be durable.
func (s *Segment) Synced() int64 { return s.synced }

// NextRecord is the record id the next frame will have.
func (s *Segment) NextRecord() uint64 { return s.record }

// Close cuts the file to what was written and closes it, without a sync. An error means that what was
// not synced before may be lost.
func (s *Segment) Close() error {
	if s.failed != nil {
		return s.failed
	}
	s.failed = fmt.Errorf("segment %q: %w", s.path, os.ErrClosed)
	if err := errors.Join(s.file.Truncate(s.size), s.file.Close()); err != nil {
		return fmt.Errorf("close segment %q: %w", s.path, err)
	}
	return nil
}

// write writes the parts at the end of the segment, one after another. A short write is an error even
// if the file reports none.
func (s *Segment) write(parts ...[]byte) error {
	for _, b := range parts {
		n, err := s.file.WriteAt(b, s.size)
		if err == nil && n < len(b) {
			err = fmt.Errorf("%d of %d bytes written", n, len(b))
		}
		if err != nil {
			return fmt.Errorf("write segment %q: %w", s.path, err)
		}
		s.size += int64(len(b))
	}
	return nil
}
