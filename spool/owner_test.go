package spool

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/durable/faultfs"
)

// A folder has one spool at a time, whoever comes by which name.
func TestFolderIsLocked(t *testing.T) {
	for _, fs := range []durable.FS{faultfs.New("/state"), durable.OS} {
		dir := dir
		if fs == durable.OS {
			dir = t.TempDir()
		}
		s, _, err := Open(dir, testConfig, testOptions(fs))
		must(t, err)
		if _, _, err := Open(dir, testConfig, testOptions(fs)); !errors.Is(err, ErrInUse) {
			t.Errorf("second open: %v, want ErrInUse", err)
		}
		put(t, s, here, 1)
		must(t, s.Close())
		s, _, err = Open(dir, testConfig, testOptions(fs))
		must(t, err)
		if got := drain(t, s, here); !slices.Equal(got, []int{1}) {
			t.Errorf("drained %v, want 1", got)
		}
		must(t, s.Close())
	}
}

// A folder that was made anew in the place of the locked one is locked before
// anything is written there.
func TestNewFolderIsLocked(t *testing.T) {
	fs := faultfs.New("/state")
	s, _ := open(t, fs)
	must(t, fs.Remove(dir))
	must(t, fs.Mkdir(dir))
	other, err := fs.Lock(dir)
	must(t, err)
	if err := s.Put(payload(1, here)); !errors.Is(err, ErrInUse) {
		t.Errorf("put: %v, want ErrInUse", err)
	}
	must(t, other.Close())
	must(t, s.Put(payload(2, here)))
	if _, _, err := Open(dir, testConfig, testOptions(fs)); !errors.Is(err, ErrInUse) {
		t.Errorf("open: %v, want ErrInUse", err)
	}
	must(t, s.Close())
}

// A spool belongs to one agent; one that an earlier version wrote belongs to
// whoever opens it first.
func TestFolderKnowsItsAgent(t *testing.T) {
	mine, other := [16]byte{1}, [16]byte{2}
	as := func(fs durable.FS, id [16]byte) (*Spool, *Recovery, error) {
		o := testOptions(fs)
		o.Agent = id
		return Open(dir, testConfig, o)
	}
	fs := faultfs.New("/state", dir)
	c := durable.Header{Kind: kind, Major: 1, Minor: 0, Seq: 1, Agent: [16]byte{9}}
	p := payload(1, here)
	g, err := durable.Create(fs, dir+"/0000000000000001.seg", c, 0, durable.Frame{Type: typePayload, Records: uint32(p.Records), Meta: encodeMeta(p, p.ReadAt), Body: p.Body})
	must(t, err)
	must(t, g.Close())

	s, rec, err := as(fs, mine)
	must(t, err)
	if rec.Agent != mine {
		t.Errorf("belongs to %v, want %v", rec.Agent, mine)
	}
	put(t, s, here, 2)
	must(t, s.Close())
	before := contents(fs)
	if _, _, err := as(fs, other); !errors.Is(err, ErrForeign) {
		t.Errorf("opened as another agent: %v, want ErrForeign", err)
	}
	for name, b := range contents(fs) {
		if before[name] != b {
			t.Errorf("%s was changed by an agent it does not belong to", name)
		}
	}
	s, rec, err = as(fs, [16]byte{})
	must(t, err)
	if got := drain(t, s, here); rec.Agent != mine || !slices.Equal(got, []int{1, 2}) {
		t.Errorf("belongs to %v and has %v, want %v and both", rec.Agent, got, mine)
	}
	must(t, s.Close())
}

// A segment of somebody else that has the next name is neither replaced nor
// removed.
func TestNoSegmentIsReplaced(t *testing.T) {
	fs := faultfs.New("/state")
	s, _ := open(t, fs)
	theirs := dir + "/0000000000000001.seg"
	fs.SetContent(theirs, []byte("theirs"))
	put(t, s, here, 1)
	must(t, s.Close())
	if got := fs.Content(theirs); !bytes.Equal(got, []byte("theirs")) {
		t.Errorf("their segment is %q now", got)
	}
}
