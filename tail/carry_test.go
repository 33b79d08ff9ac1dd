package tail

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"kusto-agent/batcher"
	"kusto-agent/internal/record"
	"kusto-agent/internal/units"
	"kusto-agent/tail/internal/agenda"
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/tracker"
)

func dockerLine(stream, text string) string {
	return fmt.Sprintf(`{"log":%q,"stream":%q,"time":"2026-03-01T12:00:00.5Z"}`+"\n", text, stream)
}

// carryWorld is a world of a container log whose messages are waited for without
// end.
func carryWorld(t *testing.T, how string) *world {
	t.Parallel()
	w := parseWorld(t, how, nil)
	w.in().RotateQuiet = units.Duration(time.Hour)
	return w
}

func (w *world) rename(from, to string) {
	w.t.Helper()
	must(w.t, os.Rename(w.path(from), w.path(to)))
}

// The rest of a message is joined that is in the next file of the same path, with
// what the other stream wrote, wherever the first file is moved, and with any stop
// or kill between.
func TestMessageOverFiles(t *testing.T) {
	cri := func(stream, text string, whole bool) string {
		return criLine(stream, map[bool]string{false: "P", true: "F"}[whole], text)
	}
	docker := func(stream, text string, whole bool) string {
		return dockerLine(stream, text+map[bool]string{true: "\n"}[whole])
	}
	for how, line := range map[string]func(string, string, bool) string{"cri": cri, "docker": docker} {
		for _, to := range []string{"a.log.1", "a.log.20260301-120000", "old"} {
			for _, between := range []string{"", "stop", "kill", "both"} {
				for _, batch := range []bool{false, true} {
					t.Run(strings.Join([]string{how, to, between, fmt.Sprint(batch)}, " "), func(t *testing.T) {
						w := carryWorld(t, how)
						w.in().Paths, w.batch = []string{w.path("*.log"), w.path("*.1")}, batch
						w.start()
						w.appendTo("a.log", line("stdout", "x", true), line("stdout", "a", false), line("stderr", "e", true), line("stderr", "f", false))
						w.look()
						w.expect("in", criMessage("stdout", "x"))
						again := func() {
							switch between {
							case "stop":
								w.shut()
								w.start()
							case "kill":
								w.kill()
								w.start()
							}
						}
						if between == "both" {
							w.shut()
						}
						w.rename("a.log", to)
						w.appendTo("a.log", line("stderr", "g", true), line("stdout", "b", false))
						if between == "both" {
							w.start()
						}
						w.look()
						again()
						w.appendTo("a.log", line("stdout", "c", true), line("stdout", "y", true))
						w.expect("in", criMessage("stdout", "abc"), criMessage("stderr", "e"), criMessage("stderr", "fg"), criMessage("stdout", "y"))
						w.shut()
						w.start()
						w.look()
						w.expect("in")
					})
				}
			}
		}
	}
}

// What was begun is made again from both files.
func TestMessageOverFilesIsMadeAgain(t *testing.T) {
	for _, fields := range []map[string]string{nil, {"offset": "{offset}", "f": "{file}", "b": "{batch}"}} {
		t.Run(fmt.Sprint(len(fields)), func(t *testing.T) {
			w := carryWorld(t, "cri")
			w.in().Fields, w.batch = fields, true
			w.start()
			w.appendTo("a.log", criLine("stdout", "F", "x"), criLine("stdout", "P", "a"), criLine("stderr", "F", "y"))
			w.look()
			w.taker.set(func() { w.taker.deaf = true })
			w.rename("a.log", "a.old")
			w.appendTo("a.log", criLine("stdout", "F", "b"), criLine("stdout", "F", "z"))
			w.await("records", func() bool { return w.boxed.count("in") >= 4 })
			first := w.boxed.take("in")
			w.kill()
			w.start() // makes them again, and compares
			w.look()
			again := w.boxed.take("in")
			if len(first) != 4 || len(again) != 3 || !strings.Contains(strings.Join(again, "\n"), `"message":"ab"`) {
				t.Errorf("first %q, again %q", first, again)
			}
			w.shut()
			w.start()
			w.look()
			w.expect("in")
		})
	}
}

// A message can go through several files, if each has a part of it.
func TestMessageOverThreeFiles(t *testing.T) {
	w := carryWorld(t, "cri")
	w.start()
	w.appendTo("a.log", criLine("stdout", "P", "a"))
	w.look()
	w.rename("a.log", "a.log.1")
	w.appendTo("a.log", criLine("stdout", "P", "b"))
	w.look()
	w.rename("a.log.1", "a.log.2")
	w.rename("a.log", "a.log.1")
	w.appendTo("a.log", criLine("stdout", "F", "c"), criLine("stdout", "F", "d"))
	w.expect("in", criMessage("stdout", "abc"), criMessage("stdout", "d"))
	w.shut()
	w.start()
	w.look()
	w.expect("in")
}

// Two rotations while nobody looks: the file between is not passed over.
func TestMessagesOverTwoRotations(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		t.Run(fmt.Sprint(stopped), func(t *testing.T) {
			w := carryWorld(t, "cri")
			long := func(text string) string { return strings.Repeat(text, 60) } // so that files do not begin alike
			w.start()
			w.appendTo("a.log", criLine("stdout", "F", long("x")), criLine("stdout", "P", "a"))
			w.expect("in", criMessage("stdout", long("x")))
			if stopped {
				w.shut()
			}
			w.rename("a.log", "a.log.2")
			w.appendTo("a.log", criLine("stdout", "F", long("b")), criLine("stdout", "P", "c"))
			w.rename("a.log", "a.log.1")
			w.appendTo("a.log", criLine("stdout", "F", long("d")))
			if stopped {
				w.start()
			}
			w.expect("in", criMessage("stdout", "a"+long("b")), criMessage("stdout", "c"+long("d")))
		})
	}
}

// What cannot be joined is sent as it is, in time.
func TestMessageNotOverFiles(t *testing.T) {
	f := func(name, old, next string, quiet time.Duration, want ...string) {
		t.Run(name, func(t *testing.T) {
			w := carryWorld(t, "cri")
			w.in().RotateQuiet = units.Duration(quiet)
			w.start()
			w.appendTo("a.log", criLine("stdout", "F", "x"), old)
			w.look()
			w.rename("a.log", "a.old")
			w.appendTo("a.log", next)
			w.expect("in", append(want, criMessage("stdout", "x"))...)
			w.look()
			w.await("the old file to be let go", func() bool { return len(w.tailer.all()) == 1 })
		})
	}
	part := criLine("stdout", "P", "a")
	const soon, later = 300 * time.Millisecond, 5 * time.Second // when the next file is there for certain
	f("nothing open", criLine("stderr", "F", "a"), criLine("stdout", "F", "b"), soon, criMessage("stderr", "a"), criMessage("stdout", "b"))
	f("nothing follows", part, "", soon, criMessage("stdout", "a", isPartial))
	f("half a line follows", part, strings.TrimSuffix(criLine("stdout", "F", "b"), "\n"), soon, criMessage("stdout", "a", isPartial))
	f("no end follows", part, criLine("stdout", "P", "b")+criLine("stderr", "F", "c"), later, criMessage("stdout", "ab", isPartial), criMessage("stderr", "c"))
	f("nonsense follows", part, "nonsense\n"+criLine("stdout", "F", "b"), soon, criMessage("stdout", "a", isPartial), criMessage("stdout", "b"))
	f("half a line is open", part+"2026", criLine("stdout", "F", "b"), soon, criMessage("stdout", "a", isPartial), criMessage("stdout", "b"))
}

// The old file grows when its message was lent already: it is joined there.
func TestLentMessageGoesOn(t *testing.T) {
	w := carryWorld(t, "cri")
	w.start()
	w.appendTo("a.log", criLine("stdout", "P", "a"))
	w.look()
	w.rename("a.log", "a.old")
	w.appendTo("a.log", criLine("stdout", "P", "c"))
	w.await("a loan", func() bool {
		for _, r := range w.tailer.all() {
			if r.life.Wait() == tracker.ForSuccessor {
				return true
			}
		}
		return false
	})
	w.appendTo("a.old", criLine("stdout", "F", "b"))
	w.look()
	w.appendTo("a.log", criLine("stdout", "F", "d"))
	w.expect("in", criMessage("stdout", "ab"), criMessage("stdout", "cd"))
}

// The same, if the old file was closed meanwhile because too many files were open, and grows
// after the turn with the end of the message in the next file has begun.
func TestLentMessageOfAClosedFileGoesOn(t *testing.T) {
	w := carryWorld(t, "cri")
	w.lendClosed(w.path("*.log*"))
	w.taker.set(func() { w.taker.leasing = sync.OnceFunc(func() { w.appendTo("a.log.1", criLine("stdout", "F", "b")) }) })
	w.appendTo("a.log", criLine("stdout", "F", "d"))
	w.expect("in", criMessage("stdout", "ab"), criMessage("stdout", "cd"))
}

// The same, if the old file has gone to another folder since it was closed.
func TestLentMessageOfAFileInAnotherFolderGoesOn(t *testing.T) {
	w := carryWorld(t, "cri")
	must(t, os.Mkdir(w.path("old"), 0o755))
	w.lendClosed(w.path("*.log*"), w.path("old/*"))
	w.rename("a.log.1", "old/a.log.1")
	w.look()
	w.awaitClosedLoan()
	w.taker.set(func() {
		w.taker.leasing = sync.OnceFunc(func() { w.appendTo("old/a.log.1", criLine("stdout", "F", "b")) })
	})
	w.appendTo("a.log", criLine("stdout", "F", "d"))
	w.expect("in", criMessage("stdout", "ab"), criMessage("stdout", "cd"))
}

// lendClosed starts to read files of these patterns, of which none stays open, and waits until the open
// message of a.log.1 is lent to the reader of a.log, the next file.
func (w *world) lendClosed(patterns ...string) {
	w.t.Helper()
	w.in().Paths, w.open = patterns, 0
	w.start()
	w.appendTo("a.log", criLine("stdout", "P", "a"))
	w.look()
	w.rename("a.log", "a.log.1")
	w.appendTo("a.log", criLine("stdout", "P", "c"))
	w.look()
	w.awaitClosedLoan()
}

// awaitClosedLoan waits until the message of a file that is closed is lent.
func (w *world) awaitClosedLoan() {
	w.t.Helper()
	w.await("a loan of a closed file", func() bool {
		return slices.ContainsFunc(w.tailer.all(), func(r *reader) bool { return r.life.Wait() == tracker.ForSuccessor && r.f == nil })
	})
}

// A deleted file lends too; what it has lent is sent at a stop, as it cannot be
// found again.
func TestMessageOfADeletedFile(t *testing.T) {
	w := carryWorld(t, "cri")
	w.start()
	w.appendTo("a.log", criLine("stdout", "P", "a"))
	w.look()
	must(t, os.Remove(w.path("a.log")))
	w.appendTo("a.log", criLine("stdout", "F", "b"), criLine("stdout", "P", "c"))
	w.expect("in", criMessage("stdout", "ab"))
	must(t, os.Remove(w.path("a.log")))
	w.appendTo("a.log", criLine("stdout", "P", "d"))
	w.look()
	w.shut()
	w.start()
	w.appendTo("a.log", criLine("stdout", "F", "e"))
	w.expect("in", criMessage("stdout", "c", isPartial), criMessage("stdout", "de"))
}

// A run that ends joins what it finds.
func TestMessageOverFilesOnce(t *testing.T) {
	w := carryWorld(t, "cri")
	w.in().Paths, w.once = []string{w.path("*.log*")}, true
	w.appendTo("a.log.2", criLine("stdout", "F", "x"), criLine("stdout", "P", "a"))
	must(t, commands["tick"](&script{world: w}, nil))
	w.appendTo("a.log.1", criLine("stdout", "F", "b"), criLine("stdout", "P", "c"), "half")
	w.appendTo("a.log", criLine("stdout", "F", "d"), criLine("stdout", "P", "e"))
	w.appendTo("b.log.1", criLine("stdout", "P", "f"))
	w.appendTo("b.log", "")
	w.appendTo("c.log.1", criLine("stdout", "P", "g"))
	w.start()
	<-w.stopped
	w.taker.flush()
	got := strings.Join(w.boxed.take("in"), "\n")
	for _, want := range []string{criMessage("stdout", "x"), criMessage("stdout", "ab"), criMessage("stdout", "c", isPartial), criMessage("stdout", "d"),
		criMessage("stdout", "e", isPartial), criMessage("stdout", "f", isPartial), criMessage("stdout", "g", isPartial)} {
		if strings.Count(got, want) != 1 {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

// A message that is too long with what is in the next file goes to quarantine from
// both, and what other streams wrote is sent.
func TestLongMessageOverFiles(t *testing.T) {
	w := carryWorld(t, "cri")
	w.in().MaxRecordSize = 1000
	w.start()
	part := criLine("stdout", "P", strings.Repeat("x", 300))
	w.appendTo("a.log", criLine("stdout", "F", "x"), part, criLine("stderr", "F", "y"), part)
	w.look()
	w.rename("a.log", "a.old")
	w.appendTo("a.log", criLine("stderr", "F", "z"), part, part)
	w.look()
	end := criLine("stdout", "F", "end")
	w.appendTo("a.log", end, criLine("stdout", "F", "next"))
	w.expect("in", criMessage("stdout", "x"), criMessage("stderr", "y"), criMessage("stderr", "z"), criMessage("stdout", "next"))
	var got []string
	for _, r := range w.boxed.refused {
		got = append(got, fmt.Sprintf("%s %d+%d %t %t", r.Reason, r.Offset, r.Length, r.Truncated, strings.HasSuffix(string(r.Data), end)))
	}
	first := len(criLine("stdout", "F", "x"))
	want := []string{fmt.Sprintf("too_long %d+%d false false", first, 2*len(part)), fmt.Sprintf("too_long %d+%d false true", first, 2*len(part)+len(end))}
	if len(got) != 2 || !(got[0] == want[0] && got[1] == want[1] || got[0] == want[1] && got[1] == want[0]) {
		t.Errorf("refused %q, want %q: %.500v", got, want, w.boxed.refused)
	}
	w.shut()
	w.start()
	w.look()
	w.expect("in")
}

// A message that is longer as JSON than a payload may be is kept whole.
func TestGrownMessageOverFiles(t *testing.T) {
	w := carryWorld(t, "cri")
	w.block, w.in().Fields = 1000, map[string]string{"f": strings.Repeat("f", 800)}
	w.start()
	old, next := criLine("stdout", "P", strings.Repeat("a", 100)), criLine("stdout", "F", strings.Repeat("b", 100))
	w.appendTo("a.log", old)
	w.look()
	w.rename("a.log", "a.old")
	w.appendTo("a.log", next, criLine("stdout", "F", "c"))
	w.await("a record", func() bool { return w.boxed.count("in") > 0 })
	w.look()
	if len(w.boxed.refused) != 1 {
		t.Fatalf("refused %v", w.boxed.refused)
	}
	if r := w.boxed.refused[0]; string(r.Data) != old+next || r.Reason != record.Grown || !strings.Contains(r.Message, fmt.Sprintf("its first %d bytes", len(old))) {
		t.Errorf("refused %v", r)
	}
	for _, r := range w.tailer.all() {
		if r.k.position != r.shown.size {
			t.Errorf("%s is at %d of %d", r.path(), r.k.position, r.shown.size)
		}
	}
}

// overFiles returns the payload of a message that begins in a.old and ends in a.log, after the
// files got these texts. It is not sent.
func overFiles(t *testing.T, old, next string) (*world, *record.Payload) {
	t.Helper()
	w := carryWorld(t, "cri")
	w.batch = true
	w.start()
	w.taker.set(func() { w.taker.hold = true })
	w.appendTo("a.log", old)
	w.look()
	w.rename("a.log", "a.old")
	w.appendTo("a.log", next)
	w.await("a payload", func() bool {
		w.taker.mu.Lock()
		defer w.taker.mu.Unlock()
		return len(w.taker.unsent) > 0
	})
	w.taker.mu.Lock()
	defer w.taker.mu.Unlock()
	return w, w.taker.unsent[0]
}

// growing is a quarantine. When it takes the first records, it calls grow.
type growing struct {
	*box
	grow func()
}

func (g *growing) Put(recs []record.Rejected) error {
	if grow := g.grow; grow != nil {
		g.grow = nil
		grow()
	}
	return g.box.Put(recs)
}

// A message that quarantine has taken is not read again when its first file grows at that moment:
// what is written there then is a message of its own.
func TestRefusedMessageIsReadOnce(t *testing.T) {
	w := carryWorld(t, "cri")
	w.block, w.in().Fields = 1000, map[string]string{"f": strings.Repeat("f", 800)}
	old, next := criLine("stdout", "P", strings.Repeat("a", 100)), criLine("stdout", "F", strings.Repeat("b", 100))
	w.keeper = &growing{w.boxed, func() { w.appendTo("a.old", criLine("stdout", "F", "late")) }}
	w.start()
	w.appendTo("a.log", old)
	w.look()
	w.rename("a.log", "a.old")
	w.appendTo("a.log", next, criLine("stdout", "F", "c"))
	w.await("two records", func() bool { return w.boxed.count("in") >= 2 })
	w.look()
	got := strings.Join(w.boxed.take("in"), "\n")
	if len(w.boxed.refused) != 1 || string(w.boxed.refused[0].Data) != old+next || strings.Count(got, `"late"`) != 1 || strings.Count(got, "\n") != 1 {
		t.Errorf("refused %v, records\n%s", w.boxed.refused, got)
	}
	if read, grown := w.boxed.counter("read"), w.boxed.counter(string(record.Grown)); read != 2 || grown != 1 {
		t.Errorf("%d records were read and %d refused", read, grown)
	}
}

// A record that is refused has its bytes of both files.
func TestRestoreOverFiles(t *testing.T) {
	old, next := criLine("stdout", "P", "a"), criLine("stderr", "F", "e")+criLine("stdout", "F", "b")
	w, p := overFiles(t, old, next)
	recs, err := recordsOf(p)
	must(t, err)
	must(t, w.tailer.Restore(p, recs))
	if len(recs) != 1 || string(recs[0].Data) != old+next || recs[0].Length != int64(len(old+next)) || recs[0].Offset != 0 || !strings.Contains(recs[0].Message, "its first") {
		t.Errorf("records %v", recs)
	}
}

// A message of which one file is gone is gone as a whole: its rest is no record.
func TestDivideOverFiles(t *testing.T) {
	for _, removed := range []string{"a.old", "a.log"} {
		t.Run(removed, func(t *testing.T) {
			w, p := overFiles(t, criLine("stdout", "P", "a"), criLine("stdout", "F", "b"))
			if len(p.Cover) != 2 {
				t.Fatalf("cover %v", p.Cover)
			}
			w.shut() // a reader may hold the file open, and its bytes with it
			must(t, os.Remove(w.path(removed)))
			w.start()
			q := describe(p)
			if body, err := w.tailer.ReadSpans(q); !errors.Is(err, ErrSourceGone) {
				t.Errorf("got %q, %v", body, err)
			}
			left, gone, err := w.tailer.Divide(q)
			must(t, err)
			if len(left.Cover) != 0 || left.Records != 0 || !slices.Equal(gone.Cover, p.Cover) || gone.Records != 1 {
				t.Errorf("left %d of %v, gone %d of %v", left.Records, left.Cover, gone.Records, gone.Cover)
			}
		})
	}
}

// recordsOf are the records of a payload, as its refusal gives them.
func recordsOf(p *record.Payload) (all []record.Rejected, err error) {
	recs, err := batcher.Records(p)
	for _, r := range recs {
		all = append(all, record.Rejected{File: r.File, Offset: r.Offset, Length: r.Length, Data: r.Data})
	}
	return all, err
}

// However a log is cut into files, and whenever the agent is stopped or killed, each
// message is one record.
func TestMessagesOverAnyFiles(t *testing.T) {
	for seed := range uint64(24) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := carryWorld(t, "cri")
			r := rand.New(rand.NewPCG(seed, 7))
			w.batch = seed%2 == 0
			inside := seed%3 > 0
			if inside {
				w.in().Paths = []string{w.path("*.log*")}
			}
			if seed%4 == 1 {
				w.in().Fields = map[string]string{"b": "{batch}"}
			}
			w.start()
			var want []string
			open := make(map[string]string)
			files, n := 0, 0
			for range 60 {
				switch r.IntN(8) {
				case 0: // the log goes on in a new file, perhaps before anybody looks
					if files++; !inside || files == 1 || r.IntN(2) == 0 {
						w.look()
					}
					to := fmt.Sprintf("a.log.%d", files)
					if !inside {
						to = fmt.Sprintf("old-%d", files)
					}
					if _, err := os.Stat(w.path("a.log")); err == nil {
						w.rename("a.log", to)
						must(t, commands["tick"](&script{world: w}, nil))
					}
				case 1:
					if r.IntN(2) == 0 {
						w.look()
					}
					if r.IntN(2) == 0 {
						w.kill()
					} else {
						w.shut()
					}
					w.start()
				case 2:
					w.look()
				default:
					stream, tag := []string{"stdout", "stderr"}[r.IntN(2)], []string{"P", "P", "F"}[r.IntN(3)]
					n++
					text := fmt.Sprintf(" %d", n)
					w.appendTo("a.log", criLine(stream, tag, text))
					if open[stream] += text; tag == "F" {
						want = append(want, open[stream])
						delete(open, stream)
					}
				}
			}
			for stream, text := range open {
				w.appendTo("a.log", criLine(stream, "F", ""))
				want = append(want, text)
			}
			w.await("all messages", func() bool { return w.boxed.count("in") >= len(want) })
			w.look()
			var got []string
			for _, rec := range w.boxed.take("in") {
				var m struct{ Message string }
				must(t, json.Unmarshal([]byte(rec), &m))
				got = append(got, m.Message)
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("messages\n%q, want\n%q\nlog:\n%s", got, want, w.boxed.text())
			}
		})
	}
}

// A file between two that was compressed before anybody saw it is not passed over: the
// message that is open before it does not go on behind it.
func TestMessageNotOverACompressedFile(t *testing.T) {
	long := func(text string) string { return strings.Repeat(text, 1200) } // so that files do not begin alike, and copies are recognized
	f := func(pack string, stopped bool) {
		t.Run(fmt.Sprint(pack, " ", stopped), func(t *testing.T) {
			w := carryWorld(t, "cri")
			w.in().RotateQuiet = units.Duration(time.Second)
			s := newScript(w)
			w.start()
			w.appendTo("a.log", criLine("stdout", "F", long("x")))
			w.expect("in", criMessage("stdout", long("x")))
			if stopped {
				w.shut()
			} else {
				w.tailer.mu.Lock() // nothing is seen until all is done
			}
			w.appendTo("a.log", criLine("stdout", "P", "a"))
			w.rename("a.log", "a.log.2")
			s.run("tick")
			w.appendTo("a.log", criLine("stdout", "F", long("b")), criLine("stdout", "P", "c"))
			w.rename("a.log", "a.log.1")
			if pack == "gzip" { // as dockerd and kubelet do, when the next file is there
				s.run("tick")
				w.appendTo("a.log", "")
			}
			s.run(fmt.Sprintf("tick\n%[1]s a.log.1\n%[1]s a.log.2", pack))
			if !stopped {
				w.tailer.mu.Unlock()
			} else {
				w.appendTo("a.log", "")
				w.start()
				w.await("the open message", func() bool {
					return slices.ContainsFunc(w.tailer.all(), func(r *reader) bool { return r.z != nil && r.k.position > 0 })
				})
			}
			w.appendTo("a.log", criLine("stdout", "F", "d"))
			end := []string{criMessage("stdout", "c", isPartial), criMessage("stdout", "d")}
			joined := criMessage("stdout", "cd") // if the compressed file is read when the next one asks for its end
			w.await("the end", func() bool { return w.boxed.has("in", end[1]) || w.boxed.has("in", joined) })
			if w.boxed.has("in", joined) {
				end = []string{joined}
			}
			w.expect("in", append(end, criMessage("stdout", "a", isPartial), criMessage("stdout", long("b")))...)
		})
	}
	for _, stopped := range []bool{false, true} {
		f("keep-time-gzip", stopped)
		f("gzip", stopped)
	}
}

// Two files that were made at the same moment, as far as the file system tells, and rotated before anybody saw
// them: the one that was written to later is the later one. Where that does not tell either, no message goes on
// from one to the next.
func TestMessageOverFilesOfOneMoment(t *testing.T) {
	for _, told := range []bool{true, false} {
		t.Run(fmt.Sprint(told), func(t *testing.T) {
			w := carryWorld(t, "cri")
			w.in().Paths, w.in().RotateQuiet = []string{w.path("a.log*")}, units.Duration(time.Second)
			s := newScript(w)
			for {
				w.appendTo("a.log", criLine("stdout", "P", "a"))
				w.rename("a.log", "a.log.2") // which is found last
				w.appendTo("a.log", criLine("stdout", "F", "b"))
				if told {
					s.run("tick")
				}
				w.appendTo("a.log", criLine("stdout", "P", "c"))
				w.rename("a.log", "a.log.1")
				first, err := inode.At(w.path("a.log.2"))
				must(t, err)
				second, err := inode.At(w.path("a.log.1"))
				must(t, err)
				if first.Birth == second.Birth && (first.Mtime == second.Mtime) != told {
					break
				}
			}
			s.run("tick")
			w.appendTo("a.log", criLine("stdout", "F", "d"))
			w.start()
			want := []string{criMessage("stdout", "ab"), criMessage("stdout", "cd")}
			if !told {
				want = []string{criMessage("stdout", "a", isPartial), criMessage("stdout", "b"), criMessage("stdout", "c", isPartial), criMessage("stdout", "d")}
			}
			w.expect("in", want...)
		})
	}
}

// A compressed file between two of which it is not known yet what is in it, and that nobody had seen before, is
// deleted, as with its pod: no message goes on over it.
func TestMessageNotOverADeletedCompressedFile(t *testing.T) {
	for _, c := range []struct {
		paths   string
		stopped bool
	}{{"a.log", false}, {"a.log*", false}, {"a.log", true}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			w := carryWorld(t, "cri")
			w.in().Paths = []string{w.path(c.paths)}
			s := newScript(w)
			w.start()
			w.appendTo("a.log", criLine("stdout", "P", "a"))
			w.look()
			w.tailer.mu.Lock() // nothing is seen until all is done
			w.rename("a.log", "a.log.2")
			s.run("tick")
			w.appendTo("a.log", criLine("stdout", "F", "b"), criLine("stdout", "P", "c"))
			w.rename("a.log", "a.log.1")
			s.run("tick")
			w.appendTo("a.log", criLine("stdout", "F", "d"))
			s.run("gzip a.log.1")
			w.tailer.mu.Unlock()
			w.look()
			if c.stopped {
				w.shut()
			}
			must(t, os.Remove(w.path("a.log.1.gz")))
			if c.stopped {
				w.start()
			}
			w.look()
			w.expect("in", criMessage("stdout", "d"))
		})
	}
}

// While the agent is stopped, an older file of the same path is compressed before or after the rotation
// that divides a message, as kubelet does: it is not taken for the file between the two.
func TestMessageBesideAnOlderCompressedFile(t *testing.T) {
	for _, pack := range []string{"gzip", "keep-time-gzip"} {
		for _, first := range []bool{false, true} {
			t.Run(fmt.Sprint(pack, " first ", first), func(t *testing.T) {
				w := carryWorld(t, "cri")
				w.in().RotateQuiet = units.Duration(6 * time.Second) // longer than a start takes on a busy machine
				s := newScript(w)
				long := func(n int) string { return strings.Repeat(fmt.Sprint("file ", n, " "), 300) } // so that files do not begin alike
				w.appendTo("a.log", criLine("stdout", "F", long(0)))
				w.start()
				w.expect("in", criMessage("stdout", long(0)))
				for n := 1; n < 4; n++ {
					packOlder := func() {
						if n > 1 {
							s.run(fmt.Sprintf("tick\n%s a.log.%d\ntick", pack, n-1))
						}
					}
					w.shut()
					w.appendTo("a.log", criLine("stdout", "P", "a"))
					if first {
						packOlder()
					}
					w.rename("a.log", fmt.Sprint("a.log.", n))
					s.run("tick")
					w.appendTo("a.log", criLine("stdout", "F", fmt.Sprint("b", n)), criLine("stdout", "F", long(n)))
					if !first {
						packOlder()
					}
					w.start()
					w.expect("in", criMessage("stdout", fmt.Sprint("ab", n)), criMessage("stdout", long(n)))
				}
			})
		}
	}
}

// While the agent runs, the file before the one that a rotation closes in the middle of a message is compressed,
// as kubelet does with each rotation, by a program that does not keep its time: the message waits until it is
// known what is in there.
func TestMessageWhereAnOlderFileIsCompressed(t *testing.T) {
	for _, first := range []bool{false, true} {
		t.Run(fmt.Sprint("first ", first), func(t *testing.T) {
			w := carryWorld(t, "cri")
			w.in().Paths = []string{w.path("*.log*")}
			w.in().RotateQuiet = units.Duration(2 * time.Second)
			s := newScript(w)
			long := func(n int) string { return strings.Repeat(fmt.Sprint("file ", n, " "), 300) } // so that files do not begin alike
			w.appendTo("a.log", criLine("stdout", "F", long(0)))
			w.start()
			w.expect("in", criMessage("stdout", long(0)))
			for n := 1; n < 3; n++ {
				packOlder := func() {
					if n > 1 {
						s.run(fmt.Sprintf("gzip a.log.%d\ntick", n-1))
					}
				}
				w.appendTo("a.log", criLine("stdout", "P", "a"))
				w.look()
				if first {
					packOlder()
				}
				w.rename("a.log", fmt.Sprint("a.log.", n))
				w.appendTo("a.log", criLine("stdout", "F", fmt.Sprint("b", n)), criLine("stdout", "F", long(n)))
				if !first {
					packOlder()
				}
				w.expect("in", criMessage("stdout", fmt.Sprint("ab", n)), criMessage("stdout", long(n)))
			}
		})
	}
}

// The agent stands still for longer than it waits for the rest of a message, as in a machine that is suspended.
// The rest that was written meanwhile is in the next file, which it has not seen yet.
func TestMessageGoesOnAfterAStandstill(t *testing.T) {
	for _, watch := range []string{"auto", "poll"} {
		t.Run(watch, func(t *testing.T) {
			w := carryWorld(t, "cri")
			w.in().Watch = watch
			w.start()
			w.appendTo("a.log", criLine("stdout", "P", "a"))
			w.look()
			w.tailer.mu.Lock()
			for _, s := range w.tailer.inputs()[0].streams {
				for _, r := range s.files {
					r.own().OpenSince = time.Now().Add(-2 * time.Hour)
				}
			}
			for i := range w.tailer.scans.began {
				w.tailer.scans.began[i] = time.Now().Add(-2 * time.Hour)
			}
			w.rename("a.log", "a.log.1")
			w.appendTo("a.log", criLine("stdout", "F", "b"))
			w.tailer.mu.Unlock()
			w.expect("in", criMessage("stdout", "ab"))
		})
	}
}

// TestPackedBetween: a compressed file whose time is earlier than the last write to the file before holds nothing
// that was written after that, also where the file system does not tell when it was made.
func TestPackedBetween(t *testing.T) {
	w := carryWorld(t, "cri")
	w.appendTo("a.log", criLine("stdout", "P", "a"))
	tailer := w.stepped()
	tailer.scan()
	r, in := tailer.readerAt(w.path("a.log")), tailer.inputs()[0]
	f := func(born, written int64, want bool) {
		t.Helper()
		st := inode.Status{Node: inode.Node{Ino: 1, Birth: born}, Mtime: r.shown.mtime + written}
		in.packed[st.Node] = &packed{in: in, path: w.path("a.log.1.gz"), st: st}
		defer delete(in.packed, st.Node)
		tailer.mu.Lock()
		defer tailer.mu.Unlock()
		r.wake()
		if is, _ := in.packedBetween(r, r); is != want {
			t.Errorf("born at %d, written to %d ns after the file before: it may lie between: %v", born, written, is)
		}
	}
	f(0, -1, false)
	f(0, 1, true)
	f(r.shown.mtime-2, -1, false)
	f(r.shown.mtime+1, 1, true)
}

// TestWantedFileThatIsEmptied: a compressed file that no pattern matches, and that is wanted, is emptied before it
// was looked through: no message and no loss waits for what it holds, until it is compressed data again.
func TestWantedFileThatIsEmptied(t *testing.T) {
	w := carryWorld(t, "cri")
	w.appendTo("a.log", criLine("stdout", "P", "a"))
	tailer := w.stepped()
	tailer.scan()
	r, in := tailer.readerAt(w.path("a.log")), tailer.inputs()[0]
	write := func(content []byte) { must(t, os.WriteFile(w.path("a.log.1.gz"), content, 0o644)) }
	waits := func(want bool) {
		t.Helper()
		tailer.mu.Lock()
		defer tailer.mu.Unlock()
		r.wake()
		_, unclear := in.packedBetween(r, r)
		for _, p := range in.packed {
			if p.first != w.path("a.log") || p.isUnclear() != want || unclear != want {
				t.Errorf("a loss waits for %s: %v, a message: %v, want %v", p.path, p.isUnclear(), unclear, want)
			}
		}
		if len(in.packed) != 1 {
			t.Errorf("%d compressed files are known, want the one that is wanted", len(in.packed))
		}
	}
	write(packedBytes(".gz", []byte("b\n")))
	tailer.find.adopt(in, w.path("a.log.1.gz"), w.path("a.log"))
	waits(true)
	write(nil)
	tailer.scan()
	waits(false)
	write(packedBytes(".gz", []byte("c\n")))
	tailer.scan()
	waits(true)
}

// TestMessageWaitsOverAReload: a message that waits until it is known what is in a compressed file goes on waiting
// when its input gets other settings, though its file was quiet for long.
func TestMessageWaitsOverAReload(t *testing.T) {
	w := carryWorld(t, "cri")
	w.in().Paths = []string{w.path("a.log*")}
	tailer, s := w.stepped(), newScript(w)
	step := func() {
		tailer.scan()
		tailer.turnAll()
	}
	w.appendTo("a.log", criLine("stdout", "P", "a"))
	step()
	w.rename("a.log", "a.log.2")
	s.run("tick")
	w.appendTo("a.log.1", criLine("stdout", "F", "other"))
	s.run("gzip a.log.1")
	w.appendTo("a.log", criLine("stdout", "F", "b"))
	for range 3 {
		step()
	}
	tailer.locked(func() {
		r := tailer.readerAt(w.path("a.log.2"))
		r.own().OpenSince = r.OpenSince.Add(-2 * time.Hour)
		r.grown -= agenda.Moment(2 * time.Hour)
	})
	w.in().Fields = map[string]string{"new": "x"}
	tailer.reload()
	for range 3 {
		step()
	}
	if got := w.boxed.take("in"); len(got) > 0 {
		t.Errorf("records are %q", got)
	}
}

// TestMessageOfAFileThatWaited: a file waits for the one before it until it is quiet for long itself. The message
// at its end goes on in the next file all the same.
func TestMessageOfAFileThatWaited(t *testing.T) {
	w := carryWorld(t, "cri")
	w.in().Paths = []string{w.path("a.log*")}
	tailer := w.stepped()
	w.appendTo("a.log", criLine("stdout", "P", "a"))
	tailer.scan()
	tailer.turnAll()
	w.rename("a.log", "a.log.2")
	w.appendTo("a.log", criLine("stdout", "F", "b"), criLine("stdout", "P", "c"))
	tailer.scan()
	w.rename("a.log", "a.log.1")
	w.appendTo("a.log", criLine("stdout", "F", "d"))
	tailer.scan()
	tailer.locked(func() {
		for _, r := range tailer.all() {
			r.grown -= agenda.Moment(2 * time.Hour)
		}
	})
	for range 5 {
		tailer.scan()
		tailer.turnAll()
	}
	if got, want := w.boxed.take("in"), []string{criMessage("stdout", "ab"), criMessage("stdout", "cd")}; !slices.Equal(got, want) {
		t.Errorf("records are %q, want %q", got, want)
	}
}

// TestOnceStoppedBeforeTheNextFile: a run --once that is stopped reads a deleted file to its end, also if
// the next file could still ask for the message there: that file has no turn any more.
func TestOnceStoppedBeforeTheNextFile(t *testing.T) {
	w := carryWorld(t, "cri")
	w.in().Paths, w.once = []string{w.path("*.log*")}, true
	w.appendTo("a.log.1", criLine("stdout", "F", "x"), criLine("stdout", "P", "a"))
	w.appendTo("a.log", criLine("stdout", "F", "b"))
	tailer := w.stepped()
	w.taker.set(func() { w.taker.full = true })
	tailer.scan()
	tailer.turnAll()
	must(t, os.Remove(w.path("a.log.1")))
	_, drained := tailer.startDrain()
	w.taker.set(func() { w.taker.full = false })
	tailer.turnAll()
	select {
	case <-drained:
	default:
		t.Error("it is not read to its end")
	}
	if got, want := w.boxed.take("in"), []string{criMessage("stdout", "x"), criMessage("stdout", "a", isPartial)}; !slices.Equal(got, want) {
		t.Errorf("records are %q, want %q", got, want)
	}
}

// TestOnceBesideACompressedFile: a run --once whose message may go on in a compressed file ends, whatever
// comes of that file: it cannot be inspected, breaks off, or holds what was read before.
func TestOnceBesideACompressedFile(t *testing.T) {
	open, next := criLine("stdout", "P", "a"), criLine("stdout", "F", "b")
	large, err := zstd.NewWriter(nil, zstd.WithWindowSize(32<<20), zstd.WithSingleSegment(false))
	must(t, err)
	var gz bytes.Buffer
	z := gzip.NewWriter(&gz)
	_, _ = z.Write([]byte(criLine("stdout", "F", "other")))
	_ = z.Close()
	for name, between := range map[string][]byte{
		".zst": large.EncodeAll(make([]byte, 33<<20), nil), ".gz": gz.Bytes(), "-cut.gz": gz.Bytes()[:gz.Len()-9],
	} {
		t.Run(name, func(t *testing.T) {
			w := carryWorld(t, "cri")
			w.in().Paths = append(w.in().Paths, w.path("a.log.*"))
			s := newScript(w)
			w.appendTo("a.log", criLine("stdout", "F", strings.Repeat("first ", 300)))
			w.start()
			w.expect("in", criMessage("stdout", strings.Repeat("first ", 300)))
			w.shut()
			w.appendTo("a.log", open)
			w.rename("a.log", "a.log.1")
			s.run("tick")
			must(t, os.WriteFile(w.path("a.log.2"+name), between, 0o644))
			s.run("tick")
			w.appendTo("a.log", next)
			got := w.runOnce()
			whole, parts := criMessage("stdout", "ab"), []string{criMessage("stdout", "a", isPartial), criMessage("stdout", "b")}
			for _, want := range parts {
				if !slices.Contains(got, want) && !slices.Contains(got, whole) {
					t.Errorf("%q is not in %q", want, got)
				}
			}
		})
	}
}
