package fingerprint

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"kusto-agent/internal/record"
)

// A mark is of the bytes before a place alone, and of no more than MarkLen of them.
func TestMarkAt(t *testing.T) {
	text := strings.Repeat("0123456789", 200)
	f := strings.NewReader(text)
	for _, pos := range []int64{0, 1, record.MarkLen - 1, record.MarkLen, record.MarkLen + 1, int64(len(text))} {
		got, err := MarkAt(f, pos)
		if err != nil || got != MarkOf([]byte(text[max(0, pos-record.MarkLen):pos])) || (got == 0) != (pos == 0) {
			t.Errorf("at %d: %d, %v", pos, got, err)
		}
	}
	if _, err := MarkAt(f, int64(len(text))+1); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("behind the end: %v", err)
	}
}

// The head of a file is of the largest length it has, and NULs alone have none.
func TestHeads(t *testing.T) {
	text := []byte(strings.Repeat("0123456789", 200))
	for size, want := range map[int]int{0: 0, 15: 0, 16: 16, 63: 16, 64: 64, 1023: 256, 1024: 1024, 2000: 1024} {
		h, err := HeadOf(bytes.NewReader(text[:size]), int64(size))
		if err != nil || h.Len != want {
			t.Errorf("head of %d bytes: %v, %v", size, h, err)
		}
		all := HeadsOf(Start(bytes.NewReader(text[:size]), int64(size)))
		of := HeadsOf(text[:size])
		if len(all) != len(of) || len(all) > 0 && (all[0] != h || of[0] != h) {
			t.Errorf("heads of %d bytes: %v and %v, the first is %v", size, all, of, h)
		}
	}
	if h, err := HeadOf(bytes.NewReader(make([]byte, 100)), 100); err != nil || h != (record.Head{}) {
		t.Errorf("head of NULs: %v, %v", h, err)
	}
	for n, want := range map[int]int{10: 0, 100: 64, 300: 256, 1020: 256, 1021: 1024} {
		b := append(bytes.Clone(text[:n]), make([]byte, 2000)...)
		if h, err := HeadOf(bytes.NewReader(b), int64(len(b))); err != nil || h.Len != want {
			t.Errorf("head of %d bytes before room that is reserved: %v, %v", n, h, err)
		}
	}
}
