package journal

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"kusto-agent/internal/record"
)

const childEnv = "JOURNAL_TEST_CHILD"

// childMain is the process that is killed: it begins and ends batches in the
// folder it is given, and prints each end after it was acknowledged.
func childMain() bool {
	dir := os.Getenv(childEnv)
	if dir == "" {
		return false
	}
	j, _, err := Open(dir, testConfig, Options{SegmentSize: 64 << 10})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	f := file1(1)
	at, _ := j.Position(f)
	for ; ; at++ {
		p := payload(int(at%60000), f, at, at+1)
		if err := j.Begin(p); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		if err := j.End(p.ID, record.Accepted); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(at + 1)
	}
}

// A real process, really killed, on a real disk: what it acknowledged is
// known, and at most one batch more was begun.
func TestKilledProcess(t *testing.T) {
	dir := t.TempDir()
	for round := range 5 {
		acked := killChild(t, dir, 200+300*round)
		j, rec, err := Open(dir, testConfig, Options{})
		must(t, err)
		pos, mark := j.Position(file1(1))
		if pos < acked || pos > acked+100_000 || mark != markAt(pos) {
			t.Fatalf("position %d after %d was acknowledged", pos, acked)
		}
		if len(rec.Begun) > 1 || len(rec.Begun) == 1 && rec.Begun[0].Cover[0].Start != pos {
			t.Fatalf("begun %+v at position %d, want at most the one that follows", rec.Begun, pos)
		}
		for _, b := range rec.Begun {
			must(t, j.End(b.ID, record.Accepted))
		}
		must(t, j.Close())
	}
}

// killChild lets a child acknowledge a number of ends, kills it and returns
// the last it told of.
func killChild(t *testing.T, dir string, lines int) (acked int64) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	r := bufio.NewReader(out)
	for n := 0; ; n++ {
		line, err := r.ReadString('\n')
		if err == io.EOF {
			break
		}
		must(t, err)
		if _, err := fmt.Sscan(strings.TrimSpace(line), &acked); err != nil {
			t.Fatalf("child: %s", line)
		}
		if n == lines {
			must(t, cmd.Process.Kill())
		}
	}
	_ = cmd.Wait() // it was killed
	return acked
}
