package tail

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kusto-agent/internal/compressed"
	"kusto-agent/internal/units"
	"kusto-agent/tail/internal/fingerprint"
)

// alikeSeeds are those that once found something.
var alikeSeeds = []int{41, 57, 198, 1082, 1128, 4617, 5212, 5688, 6823, 6848, 8433}

// alikeAtOnce is how many histories are played at the same time: most of one is waiting.
const alikeAtOnce = 48

// TestModelAlike is TestModel with files that begin alike, as applications write them:
// headers, banners without a time, lines that repeat. Nothing that was written may be
// missing, and what comes more often lies in a file that the log names.
// KUSTO_AGENT_ALIKE=FIRST-LAST, or one number, chooses the seeds. What a seed fixes is said at
// TestAlikeIsPlayedAgain.
func TestModelAlike(t *testing.T) {
	first, last := 0, 500
	switch chosen := os.Getenv("KUSTO_AGENT_ALIKE"); {
	case chosen != "":
		from, to, found := strings.Cut(chosen, "-")
		first, _ = strconv.Atoi(from)
		if last = first; found {
			last, _ = strconv.Atoi(to)
		}
	case testing.Short():
		last = 10
	case raceDetector:
		last = 60
	}
	seeds := make(chan int)
	var players sync.WaitGroup
	for range alikeAtOnce {
		players.Go(func() {
			for seed := range seeds {
				t.Run(fmt.Sprint(seed), func(t *testing.T) { playAlike(t, uint64(seed)) })
			}
		})
	}
	if first == 0 && !testing.Short() {
		for _, seed := range alikeSeeds {
			seeds <- seed
		}
	}
	for seed := first; seed <= last; seed++ {
		seeds <- seed
	}
	close(seeds)
	players.Wait()
}

// playAlike plays the history of a seed, and returns its steps.
func playAlike(t *testing.T, seed uint64) (steps []string) {
	m := newAlike(t, seed)
	for range 30 {
		m.step()
	}
	m.finish()
	if t.Failed() {
		t.Logf("what happened:\n%s", strings.Join(m.boxed.log, "\n"))
	}
	for _, line := range m.boxed.log {
		if step, is := strings.CutPrefix(line, "> "); is && !strings.HasPrefix(step, "look ") && !strings.HasPrefix(step, "decided ") {
			steps = append(steps, step)
		}
	}
	return steps
}

// TestAlikeIsPlayedAgain: a seed of TestModelAlike fixes every step: what is done to which file, and when the
// agent stops, is killed or loses power. It does not fix what the agent has seen of the files when a step comes,
// and how often a step that waits for it asks.
func TestAlikeIsPlayedAgain(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{0, 9, 18, 27} { // a site of each kind
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			var played [2][]string
			var players sync.WaitGroup
			for i := range played {
				players.Go(func() {
					t.Run(fmt.Sprint(i), func(t *testing.T) { played[i] = playAlike(t, seed) })
				})
			}
			players.Wait()
			if !slices.Equal(played[0], played[1]) {
				t.Errorf("once it was\n%s\nand once\n%s", strings.Join(played[0], "\n"), strings.Join(played[1], "\n"))
			}
		})
	}
}

// alike is a world of files that begin alike, and what must come of it.
type alike struct {
	*script
	r    *rand.Rand
	n    int
	kind int
	away bool // the agent is stopped

	forgets bool     // soon what is gone: what was read of it may be sent again, and no line of the log says so
	packs   bool     // files that were rotated are compressed
	packed  bool     // some file was compressed
	rotated []string // that a pattern matches and that are not compressed

	files map[string][]string        // the lines of each file that is there and written to
	owed  map[string]int             // lines that were written, and how often
	at    map[string]map[string]bool // all that ever lay in a file of a name

	unread  map[string][]string // of files, what was written since the agent was stopped
	may     map[string]int      // lines that were written and are lost, unless they were read before, and how often
	exact   map[string]bool     // lines of copies that are known for what they are, named or not
	again   map[string]bool     // lines that were there when the power was cut
	outages int
	site
}

func newAlike(t *testing.T, seed uint64) *alike {
	m := &alike{
		script: newScript(newWorld(t)), r: rand.New(rand.NewPCG(seed, 2)), kind: int(seed / 2 % 4),
		n:     1000, // a copy named by it is never in the way of a chain of rotated files
		files: make(map[string][]string), owed: make(map[string]int), at: make(map[string]map[string]bool),
		unread: make(map[string][]string), may: make(map[string]int), exact: make(map[string]bool), again: make(map[string]bool),
	}
	m.world.inMemory()
	in := m.world.in()
	in.Paths = nil
	for _, pattern := range m.settle(seed) {
		in.Paths = append(in.Paths, m.path(pattern))
	}
	if seed%2 == 1 {
		in.Watch = "poll"
	}
	in.RotateQuiet = units.Duration(150 * time.Millisecond)
	m.packs = seed%7 == 0
	if m.forgets = seed%5 == 0; m.forgets {
		in.ForgetAfter = units.Duration(20 * time.Millisecond)
	}
	if m.ends {
		in.StartAt = "end"
	}
	m.before()
	m.start()
	m.look() // what is made from here on is not of before the first start
	for _, name := range []string{"a.log", "b.log", "c.log"} {
		if f := m.home + name; m.files[f] == nil {
			m.begin(f)
		} else {
			m.write(f, m.own())
		}
	}
	return m
}

func (m *alike) do(command string, args ...string) {
	m.t.Helper()
	note := strings.Join(args, " ")
	m.boxed.note("> " + command + " " + note[:min(len(note), 60)])
	if err := commands[command](m.script, args); err != nil {
		m.t.Fatalf("%s %q: %v\n%s", command, args, err, m.boxed.text())
	}
}

// banner is what files of a kind begin with.
func (m *alike) banner() (lines []string) {
	switch m.kind {
	case 0: // a header
		return []string{"time,level,host,message"}
	case 1: // a banner of some size
		for n := range []int{8, 20, 40, 80}[m.r.IntN(4)] {
			lines = append(lines, fmt.Sprintf("banner of the service, %03d lines behind its start, and no time in it", n))
		}
	case 2: // lines that repeat
		for range 1 + m.r.IntN(80) {
			lines = append(lines, "tick, and nothing else")
		}
	case 3: // nothing, a little, or a banner
		return [][]string{nil, {"service is starting"}, {"service is starting", strings.Repeat("configuration ", 90)}}[m.r.IntN(3)]
	}
	return lines
}

// own makes lines up, most of which are written nowhere else.
func (m *alike) own() (lines []string) {
	for range m.r.IntN(4) {
		m.n++
		lines = append(lines, fmt.Sprintf("line %d %s", m.n, strings.Repeat("x", m.r.IntN(60))))
		if m.r.IntN(4) == 0 {
			lines = append(lines, "tick, and nothing else")
		}
	}
	return lines
}

// holds notes what lies in a file of a name.
func (m *alike) holds(f string, lines []string) {
	if m.at[f] == nil {
		m.at[f] = make(map[string]bool)
	}
	for _, l := range lines {
		m.at[f][l] = true
	}
}

// write appends lines, which are owed from now on.
func (m *alike) write(f string, lines []string) {
	for _, l := range lines {
		m.owed[l]++
	}
	m.files[f] = append(m.files[f], lines...)
	if m.away {
		m.unread[f] = append(m.unread[f], lines...)
	}
	m.holds(f, lines)
	m.do("partial", f, text(lines))
}

func text(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// begin makes a file that is not there.
func (m *alike) begin(f string) {
	m.files[f] = nil
	m.write(f, append(m.banner(), m.own()...))
}

// moved renames a file that is written to.
func (m *alike) moved(f, to string) {
	m.holds(to, m.files[f])
	delete(m.files, f)
	delete(m.unread, f)
	m.do("mv", f, to)
	m.isRotated(to)
}

// isRotated notes that a file has come to be that nobody writes to any more.
func (m *alike) isRotated(f string) {
	if strings.Contains(f, ".log.") {
		m.rotated = append(m.rotated, f)
	}
}

// pack compresses a file that was rotated, as logrotate does later, or at its next run.
func (m *alike) pack() {
	if len(m.rotated) == 0 {
		return
	}
	m.settled()
	i := m.r.IntN(len(m.rotated))
	if m.away && m.site.kind != "" {
		i = 0 // nobody compresses the younger ones first
	}
	f := m.rotated[i]
	m.rotated = slices.Delete(m.rotated, i, i+1)
	m.at[f+".gz"] = m.at[f]
	if m.site.kind != "" && m.r.IntN(2) == 0 {
		m.packSlowly(f)
		return
	}
	m.do("gzip", f)
}

// look has all be read that is not doubtful.
func (m *alike) look() {
	if !m.away {
		m.do("look")
	}
}

func (m *alike) step() {
	name := []string{"a.log", "b.log", "c.log"}[m.r.IntN(3)]
	f := m.home + name
	if m.site.kind != "" && m.r.IntN(4) == 0 {
		m.more(f)
		return
	}
	m.n++
	rotated := fmt.Sprintf("%s.%d", f, m.n)
	if name == "b.log" || name == "c.log" && m.kind%2 == 0 {
		rotated = fmt.Sprintf("%s-%d", f, m.n) // no pattern matches it
	}
	switch m.r.IntN(12) {
	case 0, 1:
		m.write(f, m.own())
	case 2, 3: // a crash loop that renames
		switch {
		case m.site.kind == "logrotate":
			m.logrotate()
			return
		case m.away && m.odd[f] > 1:
			rotated = fmt.Sprintf("%s.%d", f, m.n) // it is not looked for under other names
		}
		m.odd[f] = max(m.odd[f], 1)
		for range 1 + m.r.IntN(3) {
			m.n++
			to := strings.TrimRight(rotated, "0123456789") + fmt.Sprint(m.n)
			m.look()
			m.moved(f, to)
			if m.away { // renaming changes the time that stands for the moment of a truncation
				m.do("tick")
			}
			m.begin(f)
			if m.away { // one that holds nothing of its own may be a copy, and no pattern asks for it
				m.n++
				m.write(f, []string{fmt.Sprint("line ", m.n)})
			}
		}
	case 4: // one that deletes, while somebody holds what was written
		m.settled() // what is like it and still doubtful may be its copy by then
		if m.away {
			break
		}
		for range 1 + m.r.IntN(2) {
			m.do("rm", f)
			m.begin(f)
			m.look()
		}
	case 5: // saved by a temporary file
		was := m.files[f]
		if m.away || len(text(was)) < 16 || m.padded[f] {
			break
		}
		m.settled()
		m.do("partial", m.home+"tmp", text(was))
		more := m.own()
		m.do("partial", m.home+"tmp", text(more))
		for _, l := range more {
			m.owed[l]++
		}
		m.files[f] = append(slices.Clone(was), more...)
		m.holds(f, m.files[f])
		m.do("mv", m.home+"tmp", f)
	case 6, 7: // copied and truncated
		m.look()
		if m.away || len(text(m.files[f])) < 16 || m.padded[f] {
			break
		}
		m.settled() // what was read of it is not read a second time from the copy
		m.holds(rotated, m.files[f])
		m.do("partial", rotated, text(m.files[f]))
		m.rewrite(f, nil)
		m.isRotated(rotated)
	case 8: // written anew
		if m.away {
			break
		}
		m.settled()
		m.rewrite(f, append(m.banner(), m.own()...))
	case 9:
		m.look()
		if !m.away {
			m.settled()
			m.stopOrKill()
		}
	case 10:
		m.wake()
	case 11:
		m.settled()
	}
	if m.packs && m.r.IntN(4) == 0 {
		m.pack()
	}
}

// rewrite truncates a file and fills it. What begins with all that it held is taken for
// that by anybody.
func (m *alike) rewrite(f string, lines []string) {
	was := text(m.files[f])
	if now := text(lines); len(now) >= len(was) {
		lines = nil
	}
	m.do("truncate", f, "0")
	m.files[f] = nil
	delete(m.unread, f)
	m.look()
	m.do("tick") // what is made from here on is told by its time from what was made before
	m.write(f, lines)
}

// stopOrKill ends the agent in one of two ways.
func (m *alike) stopOrKill() {
	m.do([]string{"stop", "kill"}[m.r.IntN(2)])
	m.away = true
	clear(m.odd)
}

func (m *alike) wake() {
	if !m.away {
		return
	}
	if m.n%4 == 0 { // a run to the end of all files comes between
		m.boxed.note("> once")
		for _, path := range m.unreadOnce() {
			if !compressed.IsNamed(path) { // else it may be a copy, and what is missing is seen in the end
				m.t.Errorf("a run --once did not read %s", path)
			}
		}
	}
	m.do("start")
	m.away = false
	clear(m.unread)
	clear(m.odd)
}

// settled waits until nothing is doubtful.
func (m *alike) settled() {
	if m.away {
		return
	}
	if m.packs || m.packed {
		m.do("decided")
	}
	for doubts := true; doubts; { // a file that was empty when it was found comes to be doubted later
		m.look()
		if !m.await("no doubts", func() bool { return !m.tailer.suspects() }) {
			return
		}
		m.look()
		m.await("last lines", func() bool {
			doubts = m.tailer.suspects()
			return doubts || !slices.ContainsFunc(m.tailer.all(), func(r *reader) bool { return !r.atEnd })
		})
	}
}

// layAt are all lines that ever lay at a path, as a log line names it.
func (m *alike) layAt(path string) map[string]bool {
	path, err := filepath.Rel(m.dir, path)
	must(m.t, err)
	lines := maps.Clone(m.at[path])
	if m.site.kind == "links" { // or where the link led to
		if lines == nil {
			lines = make(map[string]bool)
		}
		maps.Copy(lines, m.at[m.home+filepath.Base(path)])
	}
	return lines
}

// behind are the lines of a file behind an offset, both as a log line names them.
func (m *alike) behind(about string) []string {
	var path, of string
	var offset int64
	_, err := fmt.Sscanf(about, "%s of=%s offset=%d", &path, &of, &offset)
	must(m.t, err)
	text, err := os.ReadFile(path)
	if err != nil { // it has another name by now
		return slices.Collect(maps.Keys(m.layAt(path)))
	}
	return strings.Split(string(text[min(offset, int64(len(text))):]), "\n")
}

// paths are those of the files that a line ever lay in.
func (m *alike) paths(line string) (all []string) {
	for f, lines := range m.at {
		if lines[line] {
			all = append(all, f)
		}
	}
	slices.Sort(all)
	return all
}

func (m *alike) finish() {
	m.wake()
	m.settled()
	m.do("released")
	m.settled()                    // a compressed file may have waited for one that was released
	named := make(map[string]bool) // lines that the log says may come again
	for _, line := range strings.Split(m.boxed.text(), "\n") {
		for _, says := range []string{"is read from its start as a file of its own file=", "it is read under its new path file="} {
			if _, about, found := strings.Cut(line, says); found {
				path, _, _ := strings.Cut(about, " ")
				maps.Copy(named, m.layAt(path))
			}
		}
		if _, about, found := strings.Cut(line, "while it was not being read, reading it from the start file="); found {
			var path string
			var offset int
			_, err := fmt.Sscanf(about, "%s offset=%d", &path, &offset)
			must(m.t, err)
			if offset < fingerprint.HeadLens[len(fingerprint.HeadLens)-1] { // its copies are not recognized
				maps.Copy(named, m.layAt(path))
			}
		}
		if _, about, found := strings.Cut(line, "reading continues after those bytes file="); found {
			for _, l := range m.behind(about) {
				named[l] = true
			}
		}
	}
	stored := make(map[string]int)
	for _, l := range m.boxed.take("in") {
		stored[l]++
	}
	for l, n := range m.owed {
		if stored[l] < n {
			m.t.Errorf("written %d times and stored %d times: %.60q, in %s", n, stored[l], l, m.paths(l))
		}
	}
	for l, n := range stored {
		switch {
		case m.owed[l]+m.may[l] == 0 && m.past[l]:
			if !m.ends || !named[l] && !m.forgets {
				m.t.Errorf("of before the first start: %.60q, in %s", l, m.paths(l))
			}
		case m.owed[l]+m.may[l] == 0:
			m.t.Errorf("never written: %.60q", l)
		case n > m.owed[l]+m.may[l] && m.exact[l] && !m.again[l] && !m.forgets:
			m.t.Errorf("written %d times and stored %d times, although it was clear that it was read before: %.60q, in %s", m.owed[l], n, l, m.paths(l))
		case n > (m.owed[l]+m.may[l])*(1+m.outages) && !named[l] && !m.loose[l] && !m.forgets:
			m.t.Errorf("written %d times and stored %d times in spite of no more than %d power cuts: %.60q", m.owed[l], n, m.outages, l)
		case n > m.owed[l]+m.may[l] && !named[l] && !m.loose[l] && !m.forgets && !m.again[l]:
			m.t.Errorf("written %d times and stored %d times, and not named: %.60q, in %s", m.owed[l], n, l, m.paths(l))
		}
	}
}
