package holes

import (
	"strings"
	"testing"
)

// Of bytes that end in NULs only the text is framed while something may be written in their place.
func TestFrame(t *testing.T) {
	f := func(name string, was Stretch, n, all int, size int64, over bool, frame int, ok bool) {
		t.Helper()
		s := was
		if got, is := s.Frame(100, n, all, size, over); got != frame || is != ok {
			t.Errorf("%s: %d, %v; want %d, %v", name, got, is, frame, ok)
		}
		if s.From != 100+int64(n) || s.At < 100+int64(all) {
			t.Errorf("%s: the stretch is %+v", name, s)
		}
	}
	f("to the end of a file that may grow", Stretch{}, 30, 50, 150, false, 30, true)
	f("to the end of one that does not grow", Stretch{}, 30, 50, 150, true, 50, true)
	f("nothing but NULs in one that does not grow", Stretch{}, 0, 50, 150, true, 0, false)
	f("nothing but NULs in one that may grow", Stretch{}, 0, 50, 150, false, 0, true)
	f("what follows was not looked at", Stretch{}, 30, 50, 200, false, 0, false)
	f("text follows", Stretch{From: 130, At: 170, Text: true}, 30, 50, 200, false, 50, true)
	f("text follows NULs at the offset", Stretch{From: 100, At: 170, Text: true}, 0, 50, 200, false, 0, false)
	f("other NULs than before", Stretch{From: 90, At: 95, Text: true}, 30, 50, 150, false, 30, true)
}

// A stretch in whose place text was written is none any more.
func TestReview(t *testing.T) {
	s := Stretch{From: 3, At: 6}
	if s.Review(strings.NewReader("abc\x00\x00\x00"), 6); !s.ToEnd(6) || s.ToEnd(7) {
		t.Errorf("NULs to the end: %+v", s)
	}
	if s.Review(strings.NewReader("abcd\x00\x00"), 6); s.ToEnd(6) {
		t.Errorf("text in their place: %+v", s)
	}
	if s.Review(strings.NewReader("abc"), 3); s != (Stretch{}) {
		t.Errorf("a shorter file: %+v", s)
	}
}
