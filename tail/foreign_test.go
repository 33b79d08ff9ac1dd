package tail

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestForeignCompression: what was compressed by xz or bzip2, or is an archive of tar, also of gzip, is named with what to
// do, is never sent as text, and keeps a run --once from ending well; compressed: never leaves it alone.
func TestForeignCompression(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"xz", "bzip2", "tar", "tar.gz"} {
		path, err := exec.LookPath(strings.TrimSuffix(program, ".gz"))
		if err != nil {
			t.Run(program, func(t *testing.T) { t.Skipf("%s is not installed", program) })
			continue
		}
		w := newWorld(t)
		w.in().Paths[0] = w.path("*")
		s := newScript(w)
		s.run("append a.log one")
		must(t, os.WriteFile(w.path("b"), []byte("two\n"), 0o644))
		args, told, fix := []string{w.path("b")}, "is compressed with "+program, "gzip or zstd"
		switch program {
		case "tar":
			args, told, fix = []string{"-C", w.dir, "--remove-files", "-cf", w.path("b.tar"), "b"}, "is a tar archive", "unpack it"
		case "tar.gz":
			args, told, fix = []string{"-C", w.dir, "--remove-files", "-czf", w.path("b.tar.gz"), "b"}, "what it holds is a tar archive", "unpack it"
		}
		if out, err := exec.Command(path, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		s.run("start\nexpect one\nlook")
		if n := w.boxed.logged("WARN", told, "fix=", fix); n != 1 {
			t.Errorf("%s is told %d times", program, n)
		}
		w.shut()
		w.runOnce()
		if n := w.boxed.counter("told as refused"); n != 1 {
			t.Errorf("%s: run --once ends well", program)
		}
		w.once = false
		w.in().Compressed = "never"
		w.start()
		w.look()
		if w.tailer.Refused() {
			t.Errorf("%s: compressed: never names it", program)
		}
		w.halt()
	}
}
