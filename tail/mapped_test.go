package tail

import (
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestMappedWriter: what is written through a mapping of the file raises no event,
// and changes neither its size nor, as a rule, its time. It is read all the same.
func TestMappedWriter(t *testing.T) {
	for _, watch := range []string{"auto", "poll"} {
		t.Run(watch, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.in().Watch = watch
			f, err := os.Create(w.path("a.log"))
			must(t, err)
			defer f.Close()
			must(t, f.Truncate(4096))
			b, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			must(t, err)
			defer func() { must(t, unix.Munmap(b)) }()
			at := copy(b, "one\ntwo\n")
			s := newScript(w)
			s.run("start")
			w.await("two records", func() bool { return w.boxed.count("in") >= 2 })
			for _, text := range []string{"three\n", "fo", "ur\nfive\n"} {
				at += copy(b[at:], text)
			}
			w.await("five records", func() bool { return w.boxed.count("in") >= 5 })
			s.run("expect one two three four five")
			copy(b[at:], "six\n")
			s.run("kill\nstart\nexpect six")
		})
	}
}

// TestDirectWriter: so is what is written past the page cache.
func TestDirectWriter(t *testing.T) {
	w := newWorld(t)
	f, err := os.OpenFile(w.path("a.log"), os.O_CREATE|os.O_WRONLY|unix.O_DIRECT, 0o644)
	if err != nil {
		t.Skipf("the kernel refuses O_DIRECT here: %v", err)
	}
	defer f.Close()
	room := make([]byte, 2*4096)
	start := -int(uintptr(unsafe.Pointer(&room[0]))) & 4095
	block := room[start : start+4096]
	s := newScript(w)
	s.run("start")
	for _, line := range []string{"one", "two", "three"} {
		for i := range block {
			block[i] = '.'
		}
		copy(block, line)
		block[4095] = '\n'
		want := string(block[:4095])
		_, err := f.Write(block)
		must(t, err)
		w.expect("in", want)
	}
}
