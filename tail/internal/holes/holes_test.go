package holes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kusto-agent/internal/durable"

	"golang.org/x/sys/unix"
)

func TestFirstText(t *testing.T) {
	for text, want := range map[string]int{"": -1, "\x00\x00": -1, "a": 0, "\x00\x00a\x00": 2} {
		if got := FirstText([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// A hole that another program punched before an offset is told from text, and from NULs that
// somebody wrote.
func TestHoles(t *testing.T) {
	const whole = 4 * Block
	text := []byte(strings.Repeat("a line of a log\n", whole/16))
	path := filepath.Join(t.TempDir(), "a.log")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if durable.DataAt(f, 7, whole) != 7 || Punched(f, whole, 2*Block+100) {
		t.Error("a file without holes has one")
	}
	if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 2*Block); err != nil {
		t.Skip("this file system has no holes:", err)
	}
	if at := durable.DataAt(f, 7, whole); at != 2*Block {
		t.Errorf("data follows at %d, want %d", at, 2*Block)
	}
	if !Punched(f, whole, 2*Block+100) {
		t.Error("the hole among the bytes before an offset is not seen")
	}
	for _, pos := range []int64{Block, 3*Block + 600, 2 * whole} {
		if Punched(f, whole, pos) {
			t.Errorf("a hole ends among the bytes before %d", pos)
		}
	}
	if _, err := f.WriteAt(make([]byte, 2*Block), 0); err != nil {
		t.Fatal(err)
	}
	if Punched(f, whole, 2*Block+100) {
		t.Error("NULs that were written count as a hole")
	}
	if at := durable.DataAt(f, 2*whole, whole); at != whole {
		t.Errorf("behind the end data follows at %d", at)
	}
}
