package tail

import (
	"os"
	"testing"
	"time"

	"kusto-agent/tail/internal/inode"
)

// TestInodeReused: where the file system tells no birth, a file that has got the inode of one that was
// deleted is not taken for that. The file of another program beside is not read for what was unread of the
// deleted one, and one that takes the place of a file that was read is read from its start.
func TestInodeReused(t *testing.T) {
	t.Parallel()
	w := newWorldIn(t, image(t, "ext4", "mkfs.ext4", "-q", "-F", "-I", "128"))
	w.in().Paths = []string{w.path("d/*.log")}
	s := newScript(w)
	ino := func(name string) uint64 {
		st, err := inode.At(w.path(name))
		must(t, err)
		if st.Birth != 0 {
			t.Skip("the file system tells births all the same")
		}
		return st.Ino
	}
	s.run(`
		mkdir d
		mkdir e
		append d/a.log x1..x9
		start
		expect x1..x9
		stop
		append d/a.log lost
	`)
	was := ino("d/a.log")
	s.run("rm d/a.log\nappend e/a.log another1..another9")
	if now := ino("e/a.log"); now != was {
		t.Skipf("the file system gave out inode %d and not %d again", now, was)
	}
	s.run(`
		start
		append d/b.log y1..y9
		expect y1..y9
		look
		append d/b.log z
		expect z
		files d/b.log
	`)
	was = ino("d/b.log")
	s.run("rm d/b.log\nreleased\nappend d/c.log c1..c9")
	if now := ino("d/c.log"); now != was {
		t.Skipf("the file system gave out inode %d and not %d again", now, was)
	}
	s.run(`
		expect c1..c9
		files d/c.log
	`)
	w.halt()
}

// TestRotatedTwiceWithoutBirths: where the file system tells no birth, the file in the middle of two
// rotations is known by when it was written to last. What is older, or holds the same, is left alone.
func TestRotatedTwiceWithoutBirths(t *testing.T) {
	t.Parallel()
	w := newWorldIn(t, image(t, "ext4", "mkfs.ext4", "-q", "-F", "-I", "128"))
	s := newScript(w)
	at := func(name string, seconds int64) { // the file system knows no parts of seconds
		when := time.Now().Add(time.Duration(seconds) * time.Second)
		must(t, os.Chtimes(w.path(name), when, when))
	}
	s.run("append a.log.7 old\nappend a.log \"one, and it is long\"\nstart\nexpect \"one, and it is long\"\nstop")
	at("a.log.7", -90)
	s.run("append a.log two\nmv a.log a.log.2")
	at("a.log.2", -60)
	s.run("append a.log three\nmv a.log a.log.1")
	at("a.log.1", -30)
	s.run(`
		append a.log four
		cp a.log.2 a.log.3
		start
		expect two three four
		released
		files a.log
		stop
		append a.log five
		start
		expect five
	`)
	w.halt()
}
