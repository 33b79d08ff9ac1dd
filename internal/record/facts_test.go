package record

import (
	"testing"

	"pgregory.net/rapid"
)

// TestFacts: facts have the whole info, and are equal where infos are.
func TestFacts(t *testing.T) {
	text := rapid.OneOf(rapid.Just(""), rapid.String())
	number := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64())
	info := rapid.Custom(func(t *rapid.T) FileInfo {
		i := FileInfo{
			Path: text.Draw(t, "path"), First: text.Draw(t, "first"),
			Dev: uint64(number.Draw(t, "dev")), Inode: uint64(number.Draw(t, "inode")), Birth: number.Draw(t, "birth"),
			Handle: text.Draw(t, "handle"), Size: number.Draw(t, "size"),
			Head:     Head{Len: rapid.IntRange(0, 1<<20).Draw(t, "len"), Sum: uint64(number.Draw(t, "sum"))},
			Encoding: text.Draw(t, "encoding"), Done: rapid.Bool().Draw(t, "done"), Old: number.Draw(t, "old"),
			Real: text.Draw(t, "real"), Dated: number.Draw(t, "dated"), Doubted: number.Draw(t, "doubted"), Lost: number.Draw(t, "lost"), Told: rapid.Bool().Draw(t, "told"), Seen: number.Draw(t, "seen"),
			Packed: Packed{Size: number.Draw(t, "packed"), Mtime: number.Draw(t, "mtime"), Cut: rapid.Bool().Draw(t, "cut")},
		}
		if rapid.Bool().Draw(t, "one path") {
			i.First = i.Path
		}
		return i
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := info.Draw(t, "a"), info.Draw(t, "b")
		f := a.Facts()
		if got := f.Info(); got != a {
			t.Fatalf("%+v became %+v", a, got)
		}
		if dev, inode, birth := f.Inode(); dev != a.Dev || inode != a.Inode || birth != a.Birth || f.Head() != a.Head {
			t.Fatalf("%+v has inode %d %d %d and head %v", a, dev, inode, birth, f.Head())
		}
		if (a == b) != (f == b.Facts()) {
			t.Fatalf("%+v and %+v", a, b)
		}
	})
	if zero := (FileInfo{}); zero.Facts() != "" || Facts("").Info() != zero || Facts("").Head() != zero.Head {
		t.Error("the zero info is not the empty string")
	}
}

// BenchmarkFacts: what it costs to make them, and to look a key up in them.
func BenchmarkFacts(b *testing.B) {
	i := FileInfo{Path: "/var/log/app/worker-00017.log", First: "/var/log/app/worker-00017.log", Dev: 64769, Inode: 1234567, Birth: 1795457072433384820,
		Handle: "\x01\x00\x00\x00\x87\xd6\x12\x00\x01\x02\x03\x04", Size: 80, Head: Head{Len: 64, Sum: 1 << 63}}
	b.Run("pack", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			i.Facts()
		}
	})
	f := i.Facts()
	b.Run("info", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			f.Info()
		}
	})
	b.Run("inode", func(b *testing.B) {
		for b.Loop() {
			f.Inode()
		}
	})
}
