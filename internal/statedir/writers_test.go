package statedir

import (
	"io/fs"
	"testing"
)

func TestWriters(t *testing.T) {
	f := func(mode fs.FileMode, gid int, who, how string) {
		t.Helper()
		if gotWho, gotHow := Writers(fs.ModeDir|mode, gid, []int{100, 4}); gotWho != who || gotHow != how {
			t.Errorf("%v of group %d: %q by %q, want %q by %q", mode, gid, gotWho, gotHow, who, how)
		}
	}
	const foreign = "a group that is not the agent's"
	for _, mode := range []fs.FileMode{0o700, 0o750, 0o755} { // as systemd makes them
		f(mode, 0, "", "")
	}
	f(0o770, 100, "", "")
	f(fs.ModeSetgid|0o775, 4, "", "")
	f(0o770, 0, foreign, "g-w")
	f(fs.ModeSticky|0o775, 0, foreign, "g-w")
	f(0o777, 100, "anyone", "o-w")
	f(0o777, 0, "anyone", "go-w")
	f(fs.ModeSticky|0o777, 0, "anyone", "go-w")
	f(fs.ModeSticky|0o777, 100, "anyone", "o-w")
	f(0o702, 0, "anyone", "o-w")
}
