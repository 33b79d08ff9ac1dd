package quarantine

import (
	"errors"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/internal/record"
)

var update = flag.Bool("update", false, "write the file of the current version in testdata anew")

const goldenFile = "testdata/version-1.jsonl"

func goldenRecords() []record.Rejected {
	plain, binary, cut, redacted := rejected(7), rejected(8), rejected(9), rejected(10)
	plain.Data, plain.Route.Mapping = []byte("{\"a\": \"<&>\u2028\"}"), ""
	binary.Data, binary.Path, binary.Reason = []byte{0xff, 0, 'a'}, "\"/log/\\xff\"", record.Malformed
	cut.Data, cut.Length, cut.Truncated, cut.Reason, cut.Code = []byte("head"), 1<<40, true, record.TooLong, ""
	redacted.Data, redacted.Redacted = nil, true
	block := rejected(11)
	block.Route.Format, block.Data, block.Header = record.Avro, []byte{2, 4, 0x80, 'a'}, []byte("Obj\x01\x00")
	dated := rejected(12)
	dated.Dated = time.Date(2025, 12, 31, 23, 59, 59, 7, time.UTC).UnixNano()
	return []record.Rejected{plain, binary, cut, redacted, block, dated}
}

func goldenTime() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC) }

// wantGolden compares what was written with a golden file, byte by byte, and returns what the
// file holds. With -update it writes the file first.
func wantGolden(t *testing.T, file string, got []byte) []byte {
	t.Helper()
	if *update {
		must(t, os.WriteFile(file, got, 0o644))
	}
	want, err := os.ReadFile(file)
	must(t, err)
	if string(got) != string(want) {
		t.Errorf("writes\n%s, want\n%s", got, want)
	}
	return want
}

// TestWriterKeepsItsVersion: what is written now is, byte by byte, what a release of this
// version wrote, and is read as it was meant; so is a line of before, which has fewer keys.
func TestWriterKeepsItsVersion(t *testing.T) {
	fs := faultfs.New("/state")
	s, err := Open(dir, blocking, Options{FS: fs, Now: goldenTime})
	must(t, err)
	must(t, s.Put(goldenRecords()))
	must(t, s.Close())
	want := wantGolden(t, goldenFile, fs.Content(dir+"/0000000000000001.jsonl"))
	n := 0
	read := func() {
		t.Helper()
		n = 0
		must(t, list(fs, dir, func(e Entry) error {
			want := goldenRecords()[n]
			if want.Data == nil {
				want.Data = []byte{}
			}
			if e.Err != nil || !e.Time.Equal(goldenTime()) || !reflect.DeepEqual(e.Rejected, want) {
				t.Errorf("line %d: %+v, want %+v", n, e, want)
			}
			n++
			return nil
		}))
	}
	fs.SetContent(dir+"/0000000000000001.jsonl", want)
	if read(); n != 6 {
		t.Errorf("%d lines", n)
	}
	before, _, _ := strings.Cut(string(want), "\n")
	if strings.Contains(before, "redacted") {
		t.Fatal("the first line has a key that the first lines had not")
	}
}

// TestNewerVersionIsLeftAlone: a line of a later version is told as such, nothing is added to
// its file, and what comes goes to another.
func TestNewerVersionIsLeftAlone(t *testing.T) {
	fs := faultfs.New("/state")
	must(t, durable.MkdirAll(fs, dir))
	name := dir + "/0000000000000001.jsonl"
	const later = "{\"version\":2,\"data\":{\"text\":\"a\"}}\n"
	fs.SetContent(name, []byte(later))
	s := open(t, fs, blocking)
	must(t, s.Put([]record.Rejected{rejected(1)}))
	must(t, s.Close())
	if got := string(fs.Content(name)); got != later {
		t.Errorf("the file holds %q", got)
	}
	got, err := offsets(t, fs)
	if len(got) != 1 || !errors.Is(err, durable.ErrVersion) || !strings.Contains(err.Error(), "0000000000000001.jsonl line 1: line has version 2, and this program knows 1") {
		t.Errorf("lists %v, %v", got, err)
	}
}
