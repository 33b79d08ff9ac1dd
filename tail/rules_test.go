package tail

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"kusto-agent/internal/record"
	"kusto-agent/internal/rules"
)

func dropping(c ...rules.Condition) (all []rules.Rule) {
	for _, c := range c {
		all = append(all, rules.Rule{Condition: c})
	}
	return all
}

// TestLeftOut: what rules leave out is counted by the reason, is safe, and is not read
// again; a reload changes the rules for what is read from then on.
func TestLeftOut(t *testing.T) {
	w := newWorld(t)
	w.in().Keep = []rules.Condition{{Match: "^[a-m]"}}
	w.in().Drop = []rules.Rule{{Name: "bees", Condition: rules.Condition{Match: "b"}}, {Condition: rules.Condition{Match: "c"}}}
	w.start()
	w.appendTo("a.log", "a\n", "ab\n", "\n", "z\n", "abc\n", "ac\n", "k\n", "b\n")
	w.expect("in", "a", "k")
	for reason, want := range map[string]int64{"keep": 1, "bees": 3, "drop_2": 1, "blank": 1} {
		if got := w.boxed.counter(reason); got != want {
			t.Errorf("%d left out for %s, want %d", got, reason, want)
		}
	}
	w.in().Keep, w.in().Drop = nil, dropping(rules.Condition{Match: "a"})
	w.reload()
	w.appendTo("a.log", "a\n", "z\n")
	w.expect("in", "z")
	w.shut()
	if s := w.position("a.log"); s != 23 {
		t.Errorf("safe to %d, want 23", s)
	}
	w.start()
	w.look()
	w.expect("in")
}

// TestLeftOutOfBacklog: of a file of which little is sent, that little leaves in
// payloads that are full.
func TestLeftOutOfBacklog(t *testing.T) {
	w := newWorld(t)
	w.in().Drop = dropping(rules.Condition{Match: "x"})
	w.batch, w.wait = true, time.Hour
	w.start()
	w.taker.set(func() { w.taker.hold = true })
	w.appendTo("a.log", strings.Repeat(strings.Repeat("x"+strings.Repeat("y", 98)+"\n", 90)+strings.Repeat(strings.Repeat("z", 99)+"\n", 10), 64))
	w.look()
	w.taker.mu.Lock()
	made := len(w.taker.unsent)
	w.taker.mu.Unlock()
	if made == 0 || made > 3 {
		t.Errorf("64000 bytes of 640000 leave in %d payloads of %d", made, w.block)
	}
}

// position is how far a file is safe, by the journal that was written last.
func (w *world) position(name string) int64 {
	w.t.Helper()
	w.start()
	defer w.shut()
	for _, s := range w.remembered() {
		if s.Info.Info().Path == w.path(name) {
			return s.Position
		}
	}
	w.t.Errorf("nothing is known of %s", name)
	return -1
}

// TestLeftOutMessageOverFiles: of a message in two files that is left out both ends are
// safe, and what comes behind it is read once.
func TestLeftOutMessageOverFiles(t *testing.T) {
	for _, between := range []string{"", "kill"} {
		for _, what := range []string{"ab", "ab|y", "y"} {
			t.Run(fmt.Sprint(between, what), func(t *testing.T) {
				w := carryWorld(t, "cri")
				w.in().Drop = dropping(rules.Condition{Member: "message", Match: "^(" + what + ")$"})
				w.start()
				w.appendTo("a.log", criLine("stdout", "F", "x"), criLine("stdout", "P", "a"), criLine("stderr", "F", "y"))
				w.look()
				w.expect("in", criMessage("stdout", "x"))
				w.rename("a.log", "a.old")
				w.appendTo("a.log", criLine("stdout", "F", "b"), criLine("stdout", "F", "z"))
				want := []string{criMessage("stdout", "z")}
				switch what {
				case "ab":
					want = append(want, criMessage("stderr", "y"))
				case "y":
					want = append(want, criMessage("stdout", "ab"))
				}
				w.expect("in", want...)
				if between == "kill" {
					w.kill()
				} else {
					w.shut()
				}
				w.start()
				w.look()
				w.expect("in")
				w.shut()
				if got := w.boxed.counter("drop_1"); got != int64(4-1-len(want)) {
					t.Errorf("%d are counted as left out, want %d", got, 4-1-len(want))
				}
			})
		}
	}
}

// TestInnerOverFiles: a message in two files is taken apart as one, and one that is not as
// it should be costs neither its neighbours nor its place.
func TestInnerOverFiles(t *testing.T) {
	for _, on := range []string{"raw", "drop", "quarantine"} {
		for _, between := range []string{"", "kill"} {
			for _, fits := range []string{"ab|x|y|z", "x|y|z", "ab|x|z"} {
				t.Run(fmt.Sprint(on, between, fits), func(t *testing.T) {
					w := carryWorld(t, "cri")
					w.in().Inner, w.in().OnError, w.in().Pattern = "regex", on, []string{"^(?P<m>" + fits + ")$"}
					w.start()
					w.appendTo("a.log", criLine("stdout", "F", "x"), criLine("stdout", "P", "a"), criLine("stderr", "F", "y"))
					w.look()
					sent := func(stream, text string) string {
						return strings.Replace(criMessage(stream, text), "message", "m", 1)
					}
					w.expect("in", sent("stdout", "x"))
					w.rename("a.log", "a.old")
					w.appendTo("a.log", criLine("stdout", "F", "b"), criLine("stdout", "F", "z"))
					want := []string{sent("stdout", "z")}
					misfits := 0
					for stream, text := range map[string]string{"stdout": "ab", "stderr": "y"} {
						switch fit := strings.Contains(fits, text); {
						case fit && (on != "quarantine" || fits == "ab|x|y|z"):
							want = append(want, sent(stream, text))
						case !fit && on == "raw":
							want = append(want, criMessage(stream, text, `,"parse_error":"it does not match the pattern"`))
						case !fit:
							misfits++
						}
					}
					w.expect("in", want...)
					if between == "kill" {
						w.kill()
					} else {
						w.shut()
					}
					w.start()
					w.look()
					w.expect("in")
					w.shut()
					dropped := 0
					if on == "drop" {
						dropped = misfits
					}
					if got := w.boxed.counter("unmatched"); got != int64(dropped) {
						t.Errorf("%d are counted as unmatched, want %d", got, dropped)
					}
				})
			}
		}
	}
}

// TestLeftOutBeforeAnother: where a message in two files is left out, the next one is
// known by its own place.
func TestLeftOutBeforeAnother(t *testing.T) {
	w := carryWorld(t, "cri")
	w.in().Drop = dropping(rules.Condition{Member: "message", In: []string{"ab"}})
	w.start()
	w.appendTo("a.log", criLine("stdout", "P", "a"))
	w.look()
	w.taker.set(func() { w.taker.deaf = true })
	w.rename("a.log", "a.old")
	end := criLine("stdout", "F", "b")
	w.appendTo("a.log", end, criLine("stdout", "F", "z"))
	w.await("a record", func() bool { return w.boxed.count("in") == 1 })
	w.taker.mu.Lock()
	defer w.taker.mu.Unlock()
	if p := w.taker.unended[0]; len(p.Pieces) != 1 || p.Pieces[0].Start != int64(len(end)) || p.Pieces[0].Len() != int64(len(end)) {
		t.Errorf("pieces %v, want one at %d", p.Pieces, len(end))
	}
}

// TestReadAnewByRules: what was read before there were rules is read anew by them.
func TestReadAnewByRules(t *testing.T) {
	w, made := sent(t, record.TXT, map[string]string{"a.log": "one\ntwo\nthree\n"})
	w.shut()
	w.in().Drop = dropping(rules.Condition{Match: "^t"})
	w.start()
	got, err := w.tailer.ReadAnew(describe(made[0]))
	must(t, err)
	if len(got.Parts) != 1 || string(got.Parts[0].Body) != "one\n" || got.Parts[0].Records != 1 || len(got.Refused) > 0 || len(got.Parts[0].Cover) != 1 || got.Parts[0].Cover[0].End != 14 {
		t.Errorf("%+v", got)
	}
}
