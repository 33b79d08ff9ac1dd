package spool

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/internal/record"
)

var update = flag.Bool("update", false, "write the files of the current version in testdata anew")

// versions is the folder of the files that earlier versions wrote: each has the payloads 1
// to 4 to one cluster and 5 to another.
const versions = "testdata"

// current is the name of this version there.
var current = fmt.Sprintf("version-%d.%d-index-%d", major, minor, indexVersion)

var goldenAgent = [16]byte{7, 1, 15: 9}

func goldenOptions(fs durable.FS) Options {
	o := testOptions(fs)
	o.Agent, o.Now = goldenAgent, func() time.Time { return time.Unix(1_790_000_000, 5) }
	o.Elapsed = func() time.Duration { return 0 }
	return o
}

// TestWriterKeepsItsVersion: what is written now is, byte by byte, what a release of this
// version wrote. Who changes the format raises a version in meta.go or index.go, keeps the
// files of the one before, and writes new ones with -update.
func TestWriterKeepsItsVersion(t *testing.T) {
	fs := faultfs.New("/state")
	s, _, err := Open(dir, testConfig, goldenOptions(fs))
	must(t, err)
	put(t, s, here, 1, 2, 3, 4)
	put(t, s, dr, 5)
	must(t, s.Close())
	got := contents(fs)
	folder := filepath.Join(versions, current)
	if *update {
		must(t, os.MkdirAll(folder, 0o755))
		for name, content := range got {
			must(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o644))
		}
	}
	want := golden(t, current)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			t.Errorf("%s is written otherwise than by version %s, at byte %d of %d", name, current, difference(got[name], want[name]), len(want[name]))
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d files are written, want %d", len(got), len(want))
	}
}

// golden are the files of a version.
func golden(t *testing.T, version string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(versions, version))
	must(t, err)
	all := map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(versions, version, e.Name()))
		must(t, err)
		all[e.Name()] = string(b)
	}
	return all
}

// goldenFS is a disk that holds the files of a version.
func goldenFS(t *testing.T, version string) *faultfs.FS {
	t.Helper()
	fs := faultfs.New("/state")
	must(t, durable.MkdirAll(fs, dir))
	for name, content := range golden(t, version) {
		fs.SetContent(dir+"/"+name, []byte(content))
	}
	return fs
}

func difference(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// TestEveryVersionIsRead: all payloads of the files that any version wrote come back as they
// were put, and the spool goes on with them; also with the list alone.
func TestEveryVersionIsRead(t *testing.T) {
	entries, err := os.ReadDir(versions)
	must(t, err)
	names := []string{}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "version-") {
			continue
		}
		names = append(names, e.Name())
		t.Run(e.Name(), func(t *testing.T) {
			fs := goldenFS(t, e.Name())
			var listed []int
			must(t, list(fs, dir, func(x Entry) error {
				p, err := x.load(fs, dir)
				must(t, err)
				if !x.Spooled.Equal(goldenOptions(fs).Now()) {
					t.Errorf("spooled at %v", x.Spooled)
				}
				listed = append(listed, number(t, p))
				return nil
			}))
			s, rec := openWith(t, testConfig, goldenOptions(fs))
			if rec.Lost || rec.Torn || len(rec.Problems) > 0 || rec.Frames != 5 {
				t.Errorf("recovery %+v", rec)
			}
			must(t, s.heldAll(func(*record.Payload, bool) bool { return true }))
			put(t, s, here, 6)
			if a, b := drain(t, s, here), drain(t, s, dr); !slices.Equal(a, []int{1, 2, 3, 4, 6}) || !slices.Equal(b, []int{5}) || !slices.Equal(listed, []int{1, 2, 3, 4, 5}) {
				t.Errorf("payloads %v and %v, listed %v", a, b, listed)
			}
			must(t, s.Close())
		})
	}
	for _, want := range []string{"version-1.0", "version-1.1-index-1", current} {
		if !slices.Contains(names, want) {
			t.Errorf("there are no files of %s", want)
		}
	}
}

// TestNewerVersionIsRefused: what a later version wrote, in a way that this one does not
// know, is refused with the file, both versions and what to do, and stays byte by byte as it
// is.
func TestNewerVersionIsRefused(t *testing.T) {
	segment := func(h durable.Header, f durable.Frame) func(*faultfs.FS) {
		return func(fs *faultfs.FS) {
			seg, err := durable.Create(fs, dir+"/0000000000000003.seg", h, 0, f)
			must(t, err)
			must(t, seg.Close())
		}
	}
	head := durable.Header{Kind: kind, Major: major, Minor: minor, Seq: 3, Agent: goldenAgent, FirstRecord: 6}
	later := head
	later.Major, later.Minor = major+1, 4
	meta := encodeMeta(payload(6, here), time.Unix(1, 0))
	sound := durable.Frame{Type: typePayload, Records: 1, Meta: meta, Body: body(6, 500)}
	other, newer := sound, sound
	other.Type = 9
	newer.Meta = slices.Clone(meta)
	newer.Meta[0] = metaVersion + 1
	f := func(name, says string, change func(*faultfs.FS)) {
		t.Run(name, func(t *testing.T) {
			fs := goldenFS(t, current)
			change(fs)
			before := contents(fs)
			_, _, err := Open(dir, testConfig, goldenOptions(fs))
			if !errors.Is(err, durable.ErrVersion) {
				t.Fatalf("open: %v", err)
			}
			for _, want := range []string{dir + "/0000000000000003.seg", says, "run that version again, or move the folder away"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if !maps.Equal(contents(fs), before) {
				t.Error("the files were changed")
			}
		})
	}
	f("segment", "version 2.4, and this program knows up to 1", segment(later, sound))
	f("meta", "version 2, and this program knows up to 1", segment(head, newer))
	f("frame", "type 9, and this program knows up to 2", segment(head, other))
}

// TestNewerIndexIsPassedOver: an index of another version says nothing that its segment does
// not, which is read instead, and gets an index of this one.
func TestNewerIndexIsPassedOver(t *testing.T) {
	fs := goldenFS(t, current)
	name := dir + "/0000000000000001.seg" + suffixOfIndex
	content := fs.Content(name)
	content[4]++
	binary.LittleEndian.PutUint32(content[76:], crc32.Checksum(content[:76], castagnoli))
	fs.SetContent(name, content)
	s, rec := openWith(t, testConfig, goldenOptions(fs))
	if rec.Lost || rec.Torn || len(rec.Problems) > 0 || rec.Frames != 5 {
		t.Errorf("recovery %+v", rec)
	}
	put(t, s, dr, 7) // from now on the spool may write
	must(t, s.Close())
	if now := fs.Content(name); now[4] != indexVersion {
		t.Errorf("the index has version %d still", now[4])
	}
	s, _ = openWith(t, testConfig, goldenOptions(fs))
	if got := drain(t, s, here); !slices.Equal(got, []int{1, 2, 3, 4}) {
		t.Errorf("payloads %v", got)
	}
}
