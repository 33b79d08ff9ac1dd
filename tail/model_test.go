package tail

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"kusto-agent/internal/units"
)

// TestModel does random things to files and to the agent, and holds what
// arrives against what a model of the files says must: every line that was
// there to be read, no line that was not, and none twice but after a kill.
func TestModel(t *testing.T) {
	runs := 50
	switch {
	case os.Getenv("KUSTO_AGENT_LONG") != "":
		runs = 2000
	case testing.Short():
		runs = 10
	}
	for seed := range runs {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			m := newModel(t, uint64(seed))
			for range 60 {
				m.step()
			}
			m.finish()
			if t.Failed() {
				t.Logf("what happened:\n%s", strings.Join(m.boxed.log, "\n"))
			}
		})
	}
}

// model is a world and what is known of it: which lines each file holds that
// have not been seen to arrive.
type model struct {
	*script
	r     *rand.Rand
	n     int // of the last line written
	files int // of the last name made up

	owed    map[string]int // lines that must arrive, and how often they have
	partial map[string]string
	names   []string    // of files that are there and match
	rotated [][2]string // where a file is now that ended with a whole line, and what it was called
	cut     [][2]string // the last line of a file that was rotated within the patterns, and what the file was called
	doubles bool        // what was begun when the agent was killed may arrive again
}

func newModel(t testing.TB, seed uint64) *model {
	m := &model{script: newScript(newWorld(t)), r: rand.New(rand.NewPCG(seed, 1)), owed: make(map[string]int), partial: make(map[string]string)}
	in := m.in()
	in.Paths = []string{m.path("*.log"), m.path("*.log.*")}
	if seed%2 == 1 {
		in.Watch = "poll"
	}
	m.batch = seed%3 == 0
	m.block = []int{256, 4096, 64 << 10}[seed%3]
	in.MaxRecordSize = 200
	in.RotateQuiet = units.Duration(400 * time.Millisecond) // a copy that rests so long before the truncation is a file of its own
	if seed%5 == 0 {
		m.open = 2
	}
	m.names = []string{"a.log", "b.log"}
	m.start()
	return m
}

func (m *model) do(command string, args ...string) {
	m.t.Helper()
	m.boxed.note("> " + strings.Join(append([]string{command}, args...), " "))
	if err := commands[command](m.script, args); err != nil {
		m.t.Fatalf("%s %q: %v", command, args, err)
	}
}

// line makes up a line that is owed from now on.
func (m *model) line() string {
	m.n++
	l := fmt.Sprintf("line %d %s", m.n, strings.Repeat("x", m.r.IntN(100)))
	m.owed[l] = 0
	return l
}

// step does one thing.
func (m *model) step() {
	f := m.names[m.r.IntN(len(m.names))]
	switch m.r.IntN(23) {
	case 0, 1, 2, 3, 4, 5: // append, ending what line there is
		lines := []string{m.line()}
		if p := m.partial[f]; p != "" {
			m.owed[p+" end"] = 0
			lines = append([]string{" end"}, lines...)
			delete(m.partial, f)
		}
		for range m.r.IntN(20) {
			lines = append(lines, m.line())
		}
		m.do("append", append([]string{f}, lines...)...)
	case 6: // the beginning of a line
		if m.partial[f] == "" {
			m.n++
			m.partial[f] = fmt.Sprintf("partial %d", m.n)
			m.do("partial", f, m.partial[f])
		}
	case 7, 8: // rotate by rename, the name within the patterns or not
		m.files++
		to := fmt.Sprintf("%s.%d", f, m.files)
		if !m.exists(f) {
			break
		}
		whole := m.partial[f] == ""
		if m.r.IntN(2) == 0 { // its last line is not waited for any longer
			to = fmt.Sprintf("old-%d", m.files)
			m.ended(f)
		} else if !whole { // it is waited for until there is another file
			m.cut = append(m.cut, [2]string{m.partial[f], f})
		}
		if whole {
			m.rotated = append(m.rotated, [2]string{to, f})
		}
		delete(m.partial, f)
		m.do("look")
		m.do("mv", f, to)
	case 9, 10: // copytruncate, all read before, or the rest is in a copy
		if m.exists(f) && m.partial[f] == "" {
			m.files++
			m.do("look")
			if m.taker.full || m.size(f) < 16 { // a shorter file is not known by its content
				break
			}
			m.copy(f, fmt.Sprintf("%s.%d", f, m.files))
			m.do("truncate", f, "0")
			m.do("look")
		}
	case 11, 12: // truncated and filled with anything
		if m.exists(f) && !m.taker.full {
			m.do("look")
			delete(m.partial, f)
			var lines []string
			for range m.r.IntN(30) {
				lines = append(lines, m.line())
			}
			m.do("write", append([]string{f}, lines...)...)
		}
	case 13:
		if m.exists(f) {
			if m.open < 10 { // what is deleted while its descriptor is given back is lost
				if m.partial[f] != "" {
					break
				}
				m.settle()
			}
			m.ended(f)
			m.do("look")
			m.do("rm", f)
			if m.r.IntN(2) == 0 { // and made anew at once, often of the same inode
				m.do("append", f, m.line())
			}
		}
	case 14:
		m.do("full")
	case 15, 16:
		m.do("room")
	case 17:
		m.do("look")
	case 18, 20:
		m.renameBack()
	case 21:
		m.settle()
		m.do("hear")
		m.do("stop")
		m.do("start")
	case 19:
		if m.r.IntN(2) == 0 {
			m.do("deaf")
			return
		}
		m.settle()
		m.taker.set(func() { m.doubles = m.doubles || m.taker.deaf })
		m.do("kill")
		m.do("start")
	}
}

// renameBack gives a rotated file its name back; what has that name is rotated.
func (m *model) renameBack() {
	if len(m.rotated) == 0 {
		return
	}
	i := m.r.IntN(len(m.rotated))
	from, to := m.rotated[i][0], m.rotated[i][1]
	if m.partial[to] != "" {
		return
	}
	m.rotated = slices.Delete(m.rotated, i, i+1)
	m.do("look")
	if m.exists(to) {
		m.files++
		aside := fmt.Sprintf("old-%d", m.files)
		m.rotated = append(m.rotated, [2]string{aside, to})
		m.do("mv", to, aside)
	}
	m.do("mv", from, to)
}

// copy makes a copy, in two writes.
func (m *model) copy(from, to string) {
	text, err := os.ReadFile(m.path(from))
	must(m.t, err)
	half := m.r.IntN(len(text) + 1)
	m.do("partial", to, string(text[:half]))
	m.do("partial", to, string(text[half:]))
}

func (m *model) size(f string) int64 {
	st, err := os.Stat(m.path(f))
	must(m.t, err)
	return st.Size()
}

func (m *model) exists(f string) bool {
	_, err := os.Stat(m.path(f))
	return err == nil
}

// ended says that the line a file ends with has no end to come: its file is
// taken away, so that it is owed as it is.
func (m *model) ended(f string) {
	if p := m.partial[f]; p != "" {
		m.owed[p] = 0
		delete(m.partial, f)
	}
}

// settle waits until all that can be read was read, also the last lines of
// files that are gone: what was deleted cannot be read by the next run.
func (m *model) settle() {
	m.do("room")
	m.do("look")
	m.await("last lines", func() bool {
		return !slices.ContainsFunc(m.tailer.all(), func(r *reader) bool {
			return (r.life.IsGone() || m.tailer.isReplaced(r)) && !r.atEnd
		})
	})
	m.await("no doubts", func() bool { return !m.tailer.suspects() })
	m.do("look")
}

func (m *model) finish() {
	for _, c := range m.cut {
		if m.owed[c[0]] = 0; !m.exists(c[1]) {
			m.do("append", c[1], m.line())
		}
	}
	m.settle()
	m.do("hear")
	m.do("released")
	for _, l := range m.boxed.take("in") {
		n, known := m.owed[l]
		if !known {
			m.t.Errorf("record that was never written: %q", l)
		}
		if m.owed[l]++; n > 0 && !m.doubles {
			m.t.Errorf("record came %d times: %q", n+1, l)
		}
	}
	var lost []string
	for l, n := range m.owed {
		if n == 0 {
			lost = append(lost, l)
		}
	}
	slices.Sort(lost)
	if len(lost) > 0 {
		m.t.Errorf("%d of %d records lost: %s", len(lost), len(m.owed), brief(lost))
	}
}
