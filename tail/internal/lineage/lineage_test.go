package lineage

import (
	"math"
	"testing"

	"kusto-agent/internal/record"
)

func TestHome(t *testing.T) {
	f := func(path, want string) {
		t.Helper()
		if got := Home(path); got != want {
			t.Errorf("%s was written at %s, want %s", path, got, want)
		}
	}
	f("/var/log/pods/a/0.log", "/var/log/pods/a/0.log")
	f("/var/log/pods/a/0.log.20260301-120000", "/var/log/pods/a/0.log")
	f("/docker/c-json.log.1", "/docker/c-json.log")
	f("/docker/c-json.log.old", "/docker/c-json.log.old")
}

// plain is a file that was made at born and written to last at written.
func plain(born, written int64, left bool) File {
	return File{&record.FileInfo{Birth: born, Dated: born}, written, left}
}

// packed is the reader of a compressed file, which was made at born, and has its own time; dated is when what it
// holds was begun, as far as is known.
func packed(born, own, dated int64) File {
	return File{&record.FileInfo{Birth: born, Dated: dated, Packed: record.Packed{Size: 1, Mtime: own}}, own, true}
}

func TestBefore(t *testing.T) {
	f := func(name string, want int, r int, files ...File) {
		t.Helper()
		if got := Before(files, r); got != want {
			t.Errorf("%s: the file before is %d, want %d", name, got, want)
		}
	}
	f("it is the only one", -1, 0, plain(10, 20, false))
	f("of three the middle one", 1, 2, plain(10, 20, true), plain(30, 40, true), plain(50, 60, false))
	f("they were found in another order", 2, 0, plain(50, 60, false), plain(10, 20, true), plain(30, 40, true))
	f("there are only younger ones", -1, 0, plain(10, 20, true), plain(30, 40, false))
	f("both were made at once: the one that has left", 1, 0, plain(10, 20, false), plain(10, 20, true))
	f("both were made at once and have left: the one that was written to earlier", 0, 1, plain(10, 20, true), plain(10, 30, true))
	f("both at once, and nothing tells", -1, 1, plain(10, 20, true), plain(10, 20, true))
	f("which of two is the one before is not known", -1, 2, plain(10, 20, true), plain(10, 20, true), plain(30, 40, false))
	f("no births: the order in which they were found", 0, 1, plain(0, 20, true), plain(0, 20, true))
	f("it is compressed, and nobody knows when it was begun", -1, 1, plain(10, 20, true), packed(30, 30, 30))
	f("the compressed one is no candidate", 0, 2, plain(10, 20, true), packed(30, 30, 30), plain(50, 60, false))
	f("it was seen before it was compressed", 1, 2, plain(10, 20, true), packed(45, 45, 30), plain(50, 60, false))
}

func TestBetween(t *testing.T) {
	a, b := plain(10, 20, true), plain(50, 60, false)
	f := func(name string, want bool, p Packed) {
		t.Helper()
		if got := p.MayLieBetween(a, b, "/a.log"); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	f("it kept its time, between the two", true, PackedAt("/a.log.1.gz", 30, 35))
	f("it kept its time, from before", false, PackedAt("/a.log.1.gz", 20, 35))
	f("it kept its time, from after the second was begun", false, PackedAt("/a.log.1.gz", 51, 70))
	f("it has a time of its own", true, PackedAt("/a.log.1.gz", 35, 35))
	f("it has a time of its own, from before", false, PackedAt("/a.log.1.gz", 15, 15))
	f("it has only a time", true, PackedAt("/a.log.1.gz", 70, 0))
	f("it is of another log", false, PackedAt("/b.log.1.gz", 30, 35))
	f("it is remembered, and was begun between", true, PackedAs(&record.FileInfo{First: "/a.log.1", Dated: 30, Birth: 40, Packed: record.Packed{Size: 1, Mtime: 40}}))
	f("it is remembered, and was begun before", false, PackedAs(&record.FileInfo{First: "/a.log.1", Dated: 10, Birth: 40, Packed: record.Packed{Size: 1, Mtime: 40}}))
	f("it is remembered, and undated", true, PackedAs(&record.FileInfo{First: "/a.log.1.gz", Dated: 40, Birth: 40, Packed: record.Packed{Size: 1, Mtime: 40}}))

	between := func(name string, want bool, first string, born int64) {
		t.Helper()
		if got := LiesBetween(&record.FileInfo{First: first, Birth: born}, a.Info, b.Info, "/a.log"); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	between("made between", true, "/a.log.1", 30)
	between("made with the first", false, "/a.log.1", 10)
	between("made with the second", false, "/a.log.1", 50)
	between("of another log", false, "/b.log.1", 30)

	if p := PackedAt("/a.log.1.gz", 20, math.MinInt64); p.MayLieBehind(a) {
		t.Error("what it held was written before the file was written to last, and may lie behind it")
	}
	if p := PackedAt("/a.log.1.gz", 15, 21); !p.MayLieBehind(a) {
		t.Error("it was made after the file was written to last")
	}
}
