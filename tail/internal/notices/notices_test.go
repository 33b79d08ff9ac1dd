package notices

import (
	"bytes"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"testing"
)

// TestBoard: a reason is logged when it is new, another one too, and its end; a scan that does not
// find it again ends it without a word, but not for a file whose reader will tell.
func TestBoard(t *testing.T) {
	var log bytes.Buffer
	b := New(slog.New(slog.NewTextHandler(&log, nil)))
	logged := func(what string, want int) {
		t.Helper()
		if got := strings.Count(log.String(), "\n"); got != want {
			t.Errorf("%s: %d lines logged, want %d:\n%s", what, got, want, log.String())
		}
		log.Reset()
	}
	file, own, whole := Subject{Path: "/a"}, Subject{Path: "/b", Input: "in"}, Subject{Input: "in"}
	if _, there := b.Of(file); there {
		t.Error("an empty board has a notice")
	}

	b.Begin(1)
	b.Report(file, errors.New("only 9 bytes"))
	logged("new", 1)
	b.Report(file, errors.New("only 10 bytes"))
	logged("another number", 0)
	if n, _ := b.Of(file); n.Why != "only 10 bytes" || n.Fix == "" || !n.Unread {
		t.Errorf("the notice is %+v", n)
	}
	b.ReportFirst(file, errors.New("something else"))
	logged("something else in the same scan", 0)
	b.Report(file, errors.New("something else"))
	logged("something else", 1)
	b.Report(file, nil)
	logged("the end", 1)
	b.Report(file, nil)
	logged("still well", 0)

	b.Report(file, errors.New("bad"))
	b.Report(own, errors.New("bad"))
	b.Report(whole, ErrNoMatch)
	logged("three", 3)
	b.Begin(2)
	b.Report(whole, ErrNoMatch)
	b.Expire(func(path string) bool { return path == "/b" })
	logged("the next scan", 0)
	left := maps.Collect(b.All())
	if _, there := left[file]; there || len(left) != 2 {
		t.Errorf("left are %v", left)
	}
	b.Begin(3)
	b.Expire(func(string) bool { return false })
	if left := maps.Collect(b.All()); len(left) != 0 {
		t.Errorf("left are %v", left)
	}
	b.Report(own, errors.New("bad"))
	logged("it is back", 1)
	b.Forget(func(s Subject) bool { return s.Input == "in" })
	if _, there := b.Of(own); there {
		t.Error("a forgotten notice is there")
	}
}
